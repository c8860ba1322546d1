"""An MCP server at an address, made with the Python SDK: remote_server.py PORT [ARGUMENT...]

`json` answers with JSON alone, `stateless` keeps no sessions, `auth` wants a sign-in (OAuth 2.1 with dynamic registration), of
which tokens live `lives=SECONDS`; `state=FILE` keeps clients and tokens there, so that the server can be started again.
"""

import json
import secrets
import sys
import time
from pathlib import Path
from typing import Annotated

import anyio
import uvicorn
from mcp.server.auth.provider import AccessToken, AuthorizationCode, RefreshToken, construct_redirect_uri
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.elicitation import ElicitationResult
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.resolve import Elicit, Resolve
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import BaseModel

PORT, *WORDS = sys.argv[1:]
BASE = f"http://127.0.0.1:{PORT}"
SETTINGS = dict(word.split("=", 1) for word in WORDS if "=" in word)


class Provider:
    """Signs everyone in, and says in a file what it issued."""

    def __init__(self, state):
        self.state = Path(state)
        self.lives = int(SETTINGS.get("lives", "3600"))
        self.all = json.loads(self.state.read_text()) if self.state.exists() else {"clients": {}, "codes": {}, "access": {}, "refresh": {}, "log": []}

    def keep(self, line=None):
        if line:
            self.all["log"].append(line)
        self.state.write_text(json.dumps(self.all))

    async def get_client(self, client_id):
        found = self.all["clients"].get(client_id)
        return OAuthClientInformationFull.model_validate_json(found) if found else None

    async def register_client(self, client_info):
        self.all["clients"][client_info.client_id] = client_info.model_dump_json()
        self.keep("register")

    async def authorize(self, client, params):
        code = AuthorizationCode(
            code=secrets.token_hex(20), scopes=params.scopes or [], expires_at=time.time() + 300, client_id=client.client_id,
            code_challenge=params.code_challenge, redirect_uri=params.redirect_uri, resource=params.resource,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
        )
        self.all["codes"][code.code] = code.model_dump_json()
        self.keep(f"authorize {params.resource}")
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state, iss=BASE)

    async def load_authorization_code(self, client, authorization_code):
        found = self.all["codes"].get(authorization_code)
        return AuthorizationCode.model_validate_json(found) if found else None

    async def exchange_authorization_code(self, client, authorization_code):
        del self.all["codes"][authorization_code.code]
        return self.issue("code", client, authorization_code)

    async def load_refresh_token(self, client, refresh_token):
        found = self.all["refresh"].get(refresh_token)
        return RefreshToken.model_validate_json(found) if found else None

    async def exchange_refresh_token(self, client, refresh_token, scopes):
        # Each is good for one use, as the specification wants it of public clients.
        del self.all["refresh"][refresh_token.token]
        return self.issue("refresh", client, refresh_token)

    def issue(self, why, client, grant):
        access = AccessToken(
            token=secrets.token_hex(20), client_id=client.client_id, scopes=grant.scopes, resource=grant.resource,
            expires_at=int(time.time()) + self.lives,
        )
        refresh = RefreshToken(token=secrets.token_hex(20), client_id=client.client_id, scopes=grant.scopes, resource=grant.resource)
        self.all["access"][access.token] = access.model_dump_json()
        self.all["refresh"][refresh.token] = refresh.model_dump_json()
        self.keep(why)
        return OAuthToken(access_token=access.token, expires_in=self.lives, refresh_token=refresh.token, scope=" ".join(grant.scopes))

    async def load_access_token(self, token):
        found = self.all["access"].get(token)
        found = AccessToken.model_validate_json(found) if found else None
        return found if found and found.expires_at > time.time() else None

    async def revoke_token(self, token):
        self.all["access"].pop(token.token, None)


class Wish(BaseModel):
    """What a person may want."""

    colour: str
    count: int


def made():
    more = {}
    if "auth" in WORDS:
        more = {
            "auth_server_provider": Provider(SETTINGS["state"]),
            "auth": AuthSettings(
                issuer_url=BASE, resource_server_url=f"{BASE}/mcp", required_scopes=["tools"], validate_token_resource=True,
                client_registration_options=ClientRegistrationOptions(enabled=True, valid_scopes=["tools"], default_scopes=["tools"]),
            ),
        }
    server = MCPServer("at-an-address", log_level="ERROR", **more)

    @server.tool()
    def echo(text: str) -> str:
        """Returns a text."""
        return text

    @server.tool()
    def header(name: str, ctx: Context) -> str:
        """Returns a header of the request."""
        return (ctx.headers or {}).get(name, "none")

    @server.tool()
    def fail() -> str:
        """Fails."""
        raise ToolError("it went wrong")

    @server.tool()
    async def wait(seconds: float, ctx: Context) -> str:
        """Reports progress for a while."""
        until = time.monotonic() + seconds
        n = 0
        while time.monotonic() < until:
            await anyio.sleep(0.1)
            n += 1
            await ctx.report_progress(n, None, f"step {n}")
        return f"{n} steps"

    async def asked():
        return Elicit("What do you want?", Wish)

    @server.tool()
    async def wish(answer: Annotated[ElicitationResult[Wish], Resolve(asked)]) -> str:
        """Asks the person what they want."""
        return json.dumps({"action": answer.action, "data": getattr(answer, "data", None) and answer.data.model_dump()})

    @server.tool()
    async def more(ctx: Context) -> str:
        """Adds a tool."""
        server.add_tool(lambda: "came later", name="later", description="Came later.")
        await ctx.notify_tools_changed()
        return "added"

    @server.resource("note://today")
    def today() -> str:
        """What is to be done."""
        return "buy milk"

    @server.resource("note://of/{day}")
    def of(day: str) -> str:
        """What was to be done."""
        return f"nothing on {day}"

    @server.prompt()
    def greet(name: str) -> str:
        """Greets somebody."""
        return f"Greet {name}."

    return server


if __name__ == "__main__":
    app = made().streamable_http_app(json_response="json" in WORDS, stateless_http="stateless" in WORDS)
    uvicorn.run(app, host="127.0.0.1", port=int(PORT), log_level="error")
