// A real OpenID provider on loopback, with four people and one page to sign in. Prints its issuer. A line on the
// standard input sets the only redirect address that it accepts; the line `rotate` gives it new keys.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { createServer } from "node:http";
import { generateKeyPairSync } from "node:crypto";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const modules = createRequire(join(process.env.MODULES, "package.json"));
const { default: Provider } = await import(pathToFileURL(modules.resolve("oidc-provider")));

const PEOPLE = {
  alice: { email: "alice@example.com", email_verified: true, groups: ["reviewers"] },
  bob: { email: "bob@example.com", email_verified: false, groups: [] },
  vera: { email: "vera@example.com", email_verified: true, groups: ["viewers"] },
  eve: { email: "eve@example.com", email_verified: true, groups: ["others"] },
};
const CLAIMS = { openid: ["sub"], email: ["email", "email_verified"], groups: ["groups"] };
const ALGORITHMS = { RS256: "rsa", ES256: "ec", EdDSA: "ed25519" };

// The package reports there what is only for tests; the standard output is for the test.
console.info = console.error;

let issuer = null, redirect = null, provider = null, answer = null;

const keys = () => Object.values(ALGORITHMS).map((type) => {
  const made = generateKeyPairSync(type, { modulusLength: 2048, namedCurve: "P-256" });
  return { use: "sig", ...made.privateKey.export({ format: "jwk" }) };
});

/** One client for each algorithm; the tokens of one of them have all claims. */
const client = ([algorithm]) => ({
  client_id: `provost-${algorithm}`,
  client_secret: "a secret + with: odd % signs",
  redirect_uris: ["http://127.0.0.1/not-known-yet"],
  id_token_signed_response_alg: algorithm,
  token_endpoint_auth_method: algorithm === "ES256" ? "client_secret_post" : "client_secret_basic",
});

function start() {
  provider = new Provider(issuer, {
    clients: Object.entries(ALGORITHMS).map(client),
    jwks: { keys: keys() },
    claims: CLAIMS,
    conformIdTokenClaims: process.env.FULL_TOKENS !== "yes",
    enabledJWA: { idTokenSigningAlgValues: Object.keys(ALGORITHMS) },
    features: { devInteractions: { enabled: false } },
    pkce: { required: () => true },
    cookies: { keys: ["of a test"] },
    interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, ...PEOPLE[id] }) }),
    // Everybody has agreed to all that the client asks for.
    async loadExistingGrant(ctx) {
      const { session, client } = ctx.oidc;
      const grant = new ctx.oidc.provider.Grant({ accountId: session.accountId, clientId: client.clientId });
      grant.addOIDCScope(Object.keys(CLAIMS).join(" "));
      await grant.save();
      return grant;
    },
  });
  // Exactly one address, which is known only when the other server runs.
  provider.Client.prototype.redirectUriAllowed = (asked) => asked === redirect;
  answer = provider.callback();
}

const FORM = "<!doctype html><title>Provider</title><form method=post><label>Name <input name=login></label> "
  + "<button>Continue</button></form>";

async function interact(request, response) {
  if (request.method === "GET") {
    response.setHeader("content-type", "text/html");
    return response.end(FORM);
  }
  let body = "";
  for await (const part of request) { body += part; }
  const accountId = new URLSearchParams(body).get("login");
  const result = Object.hasOwn(PEOPLE, accountId)
    ? { login: { accountId } }
    : { error: "access_denied", error_description: "nobody has that name" };
  return provider.interactionFinished(request, response, result, { mergeWithLastSubmission: false });
}

const server = createServer((request, response) => {
  if (!request.url.startsWith("/interaction/")) { return answer(request, response); }
  interact(request, response).catch((error) => { response.statusCode = 500; response.end(String(error)); });
});
server.listen(0, "127.0.0.1", () => {
  issuer = `http://127.0.0.1:${server.address().port}`;
  start();
  console.log(JSON.stringify({ issuer }));
});
createInterface({ input: process.stdin }).on("line", (line) => {
  if (line === "rotate") { start(); } else { redirect = line; }
  console.log("done");
}).on("close", () => process.exit(0));
