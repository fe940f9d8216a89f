"""What a project's asgi.py is: it sets the project up, and puts it behind the door."""

import json
import os

from shared.serving.asgi import wrap
from shared.serving.sockets import Sockets
from tests.shared.serving.served import configure, project, socket

given = json.loads(os.environ["SERVED"])
configure(given)
application = wrap(project, sockets=Sockets({"/socket": socket}, most=given.get("most_sockets", 50)))
