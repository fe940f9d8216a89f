"""What a project's asgi.py is: it sets the project up, and puts it behind the door."""

import json
import os

from shared.serving.asgi import wrap
from tests.shared.serving.served import configure, project

configure(json.loads(os.environ["SERVED"]))
application = wrap(project)
