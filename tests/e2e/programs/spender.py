"""A cell that knows nothing but its environment, and asks for streams until it is refused.

Prints one JSON line for the first piece of its first stream, one for each answer, and stays until it is
ended.
"""

import http.client
import json
import os
import time
import urllib.parse

FOREVER_S = 600
REFUSED = 402


def show(**fields: object) -> None:
    print(json.dumps(fields), flush=True)


def ask(url: urllib.parse.SplitResult, number: int) -> int:
    connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=30)
    body = json.dumps({"model": "model", "stream": True, "max_tokens": 100, "messages": []})
    headers = {
        "authorization": f"Bearer {os.environ['OPENAI_API_KEY']}",
        "content-type": "application/json",
    }
    connection.request("POST", f"{url.path}/v1/chat/completions", body, headers)
    response = connection.getresponse()
    first = response.readline()
    if number == 1:
        show(first=first.decode())
    rest = response.read()
    show(status=response.status, text=(first + rest).decode())
    connection.close()
    return response.status


def main() -> None:
    show(environment=dict(os.environ))
    url = urllib.parse.urlsplit(os.environ["PAPERCLIP_E2E_GATEWAY_BASE_URL"])
    number = 1
    while ask(url, number) != REFUSED:
        number += 1
    time.sleep(FOREVER_S)


if __name__ == "__main__":
    main()
