"""`trainyard chart pictures/NAME.json`: a picture that a training script logged, as a PNG. Called by `bot.cli`."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

from pydantic import ValidationError

from agent.domain.charts import Theme
from agent.domain.errors import BadData, NotFound
from agent.domain.pictures import LIMIT_BYTES, PictureSpec, Reported
from agent.runs.pictures.reported import label_of, when_reported
from bot.png_file import write_png
from charts_render.alt_text import describe
from charts_render.pool import ChartPool


async def draw_reported(path: Path, output: Path, theme: Theme, say: Callable[[str], None]) -> int:
    """Draw the file into `output`, and say what it shows. Raises: NotFound, BadData, BadRequest."""
    reported = await asyncio.to_thread(_read, path)
    spec = PictureSpec(label_of(path.stem), (reported.picture,), when_reported([reported]), theme)
    pool = ChartPool()
    try:
        png = await pool.render(spec)
    finally:
        await pool.close()
    await asyncio.to_thread(write_png, output, png)
    say(f"{output}\n{describe(spec)}")
    return 0


def has_rows(path: Path) -> bool:
    """Whether a file begins with a row of metrics, whatever it is called: an object a line, and no picture."""
    try:
        with path.open("rb") as file:
            first = json.loads(file.readline(LIMIT_BYTES))
    except (OSError, ValueError, RecursionError):
        return False  # whoever reads it says why
    return isinstance(first, dict) and bool(first) and "picture" not in first


def _read(path: Path) -> Reported:
    try:
        with path.open("rb") as file:
            return Reported.model_validate(json.loads(file.read(LIMIT_BYTES + 1)))
    except FileNotFoundError:
        raise NotFound(f"There is no file {path}.") from None
    except OSError as error:
        raise BadData(f"{path} cannot be read: {error.strerror or error}.") from error
    except ValidationError as error:
        raise BadData(f"{path} is no picture that a training logged: {error.errors()[0]['msg']}.") from error
    except (ValueError, RecursionError) as error:
        raise BadData(f"{path} is no picture that a training logged: it is not JSON, or too large.") from error
