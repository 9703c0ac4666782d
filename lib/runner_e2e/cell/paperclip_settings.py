"""The configuration that an instance begins with, so that its database gets a port of its own. Pure.

Without one the product chooses: always the same port first, which two servers that start at once both find
free. What else stands in it is what the product would write, or what the server's environment says.
"""

from runner_e2e.isolation.server import ServerPlaces


def build_settings(places: ServerPlaces, instance: str, port: int, database_port: int) -> dict[str, object]:
    """Return the content of `config.json`; `instance` is the instance's root.

    It holds no secret: it is readable for agents.
    """
    root = places.temporary_root
    return {
        "$meta": {"version": 1, "updatedAt": "1970-01-01T00:00:00.000Z", "source": "onboard"},
        "database": {
            "mode": "embedded-postgres",
            "embeddedPostgresDataDir": f"{instance}/db",
            "embeddedPostgresPort": database_port,
            "backup": {"enabled": False, "dir": f"{root}/backups"},
        },
        "logging": {"mode": "file", "logDir": f"{instance}/logs"},
        "server": {
            "deploymentMode": "local_trusted",
            "exposure": "private",
            "bind": "loopback",
            "host": "127.0.0.1",
            "port": port,
            "allowedHostnames": [],
            "serveUi": True,
        },
        "telemetry": {"enabled": False},
        "updates": {"checkEnabled": False},
        "auth": {"baseUrlMode": "auto", "disableSignUp": False},
        "storage": {"provider": "local_disk", "localDisk": {"baseDir": f"{root}/storage"}},
        "secrets": {
            "provider": "local_encrypted",
            "strictMode": True,
            "localEncrypted": {"keyFilePath": f"{instance}/secrets/master.key"},
        },
    }
