// Package demoidp is an OpenID Connect provider with demo people, for `holdpoint up`, for tests and for the load
// driver. It lets the real sign-in be shown and tested without an identity provider of one's own. It is never to be
// exposed: everybody knows its passwords. New therefore listens on a loopback address only, every page says what it is,
// and a request whose Host is neither a loopback name nor the issuer's is refused, so that a web page elsewhere cannot
// reach it by DNS rebinding.
//
// # A sign-in
//
//  1. The application sends the browser to /authorize with a PKCE challenge (S256 alone, for every client), state and
//     nonce.
//  2. The browser is sent on to /login. A live session of the provider answers at once, unless prompt=login,
//     prompt=select_account or max_age asks for the password again; prompt=none never shows the page and answers
//     login_required (OpenID Connect Core 3.1.2.1).
//  3. A person types the password and presses the button with their name. That sets the session cookie (HttpOnly,
//     SameSite=Lax) and the time that every token of this session names as auth_time.
//  4. The browser returns to the application with a code that works once, within a minute.
//  5. The application changes the code and its PKCE verifier for an ID token and an access token.
//
// # Tokens
//
// Both are JWTs signed by one key, which /keys publishes. The ID token carries iss, sub, aud (the client), auth_time,
// nonce, name, email, email_verified and groups, whatever the scopes. The access token carries what RFC 9068 asks for:
// iss, sub, aud, client_id, exp, iat, jti, scope and auth_time. It names no groups: those change, and /userinfo tells
// the present ones. What tells an access token from an ID token is its jti and scope, which no ID token has; its typ
// header is JWT, because the library offers no other.
//
// An agent gets its token by the client_credentials grant: sub and client_id are the client's id, and there is no
// auth_time. A token that somebody else uses in a person's name carries an act claim (RFC 8693, section 4.1);
// MintDelegated makes one.
//
// # Who is disabled
//
// A disabled person is told the same as one who mistypes the password, gets no token, and is refused at /userinfo;
// their sessions answer nothing. Tokens that were handed out before stay valid until they expire, as with any provider.
//
// # What is kept
//
// People, requests, codes and sessions live in memory. Requests, codes and sessions expire and are bounded in number.
// With a KeyFile the signing key outlives a restart, so that tokens and the sessions that applications built on them
// stay valid.
package demoidp
