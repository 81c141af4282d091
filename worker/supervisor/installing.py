"""The step that installs what a program requires and the host lacks.

An environment in the run's folder that sees the host's packages. Only wheels are taken: no code of a package runs while
it is installed. Owns the step's program; knows no order of steps.
"""

ENVIRONMENT = "env"
INSTALLED = "installed.txt"
_PROGRAM = f"""
import pathlib, subprocess, sys, sysconfig, venv
venv.create({ENVIRONMENT!r}, system_site_packages=True, with_pip=False, clear=True, symlinks=True)
(site,) = pathlib.Path({ENVIRONMENT!r}).glob("lib/python*/site-packages")
host = dict.fromkeys((sysconfig.get_path("purelib"), sysconfig.get_path("platlib")))
(site / "host.pth").write_text("\\n".join(host) + "\\n")
pip = [sys.executable, "-m", "pip", "--python", {ENVIRONMENT!r} + "/bin/python", "--disable-pip-version-check"]
took = subprocess.call([*pip, "install", "--no-input", "--no-cache-dir", "--only-binary", ":all:", *sys.argv[1:]])
if took == 0:
    (pathlib.Path({ENVIRONMENT!r}) / {INSTALLED!r}).write_text("\\n".join(sys.argv[1:]))
sys.exit(took)
"""
INSTALL = ("-c", _PROGRAM)
