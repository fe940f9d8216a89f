"""What a project's asgi.py is: it sets the project up, and puts it behind the door."""

import json
import os

from shared.serving.asgi.websockets import WebSockets
from shared.serving.asgi.wrapper import wrap
from tests.shared.serving.served import configure, project, socket

given = json.loads(os.environ["SERVED"])
configure(given)
application = wrap(project, websockets=WebSockets({"/socket": socket}, max_open=given.get("most_sockets", 50)))
