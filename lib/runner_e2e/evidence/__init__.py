"""What a run leaves behind: the launch journal, `server.log`, summaries, manifest. It judges no cell."""
