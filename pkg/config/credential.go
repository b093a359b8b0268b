package config

import (
	"cmp"
	"strings"
)

// The credentials that a connector can have, of which it has one at most. Secrets are named here, never held: they are read when
// they are used (D12).
type (
	// SecretRef is where a secret is kept: an environment variable or a file, exactly one.
	SecretRef struct {
		Env  string
		File string
	}

	// Basic is a user name with a password (RFC 7617).
	Basic struct {
		Username string
		Password SecretRef
	}

	// HeaderKey is a key in a header of the provider's own.
	HeaderKey struct {
		Header string
		Value  SecretRef // the whole value of the header
	}

	// OAuth2 is an access token that a token server gives (RFC 6749). It is kept in memory alone.
	OAuth2 struct {
		TokenURL     string
		AllowedHosts []string // host or host:port of the token server; checked at connect time
		ClientID     string
		ClientSecret SecretRef // none for a public client of GrantRefresh
		Scopes       []string
		Grant        string
		RefreshToken SecretRef // with GrantRefresh alone
		AuthStyle    string
	}
)

// Grants of OAuth2.
const (
	GrantClient  = "client_credentials"
	GrantRefresh = "refresh_token"
)

// How a client tells the token server who it is.
const (
	AuthInHeader = "header" // HTTP Basic
	AuthInParams = "params" // client_id and client_secret in the body
)

func (r SecretRef) String() string {
	if r.File != "" {
		return "file:" + r.File
	}
	return "env:" + r.Env
}

// Set reports whether there is a secret.
func (r SecretRef) Set() bool { return r != SecretRef{} }

// Credential names what the connector proves itself with, without any secret: an intent is authorized for it (A11). "" is none.
func (c *Connector) Credential() string {
	switch {
	case c.BearerEnv != "":
		return "env:" + c.BearerEnv
	case c.BearerFile != "":
		return "file:" + c.BearerFile
	case c.Basic != nil:
		return "basic:" + c.Basic.Username + "@" + c.Basic.Password.String()
	case c.HeaderKey != nil:
		return "api_key:" + c.HeaderKey.Header + "@" + c.HeaderKey.Value.String()
	case c.OAuth2 != nil:
		secret := c.OAuth2.ClientSecret
		if c.OAuth2.Grant == GrantRefresh {
			secret = c.OAuth2.RefreshToken
		}
		return "oauth2:" + c.OAuth2.ClientID + "@" + c.OAuth2.TokenURL + "@" + secret.String()
	case c.Signing.Set():
		return "hmac:" + c.Signing.String()
	case c.Mail != nil && c.Mail.Username.Set():
		return "login:" + c.Mail.Username.String() + "@" + c.Mail.Password.String()
	}
	return ""
}

// readCredential reads at most one credential.
func (d *declared) readCredential(part *object, c *Connector) {
	c.BearerEnv = d.loader.expand(part, "bearer_env", part.optText("bearer_env"))
	c.BearerFile = d.loader.expand(part, "bearer_file", part.optText("bearer_file"))
	part.check("bearer_env", c.BearerEnv, variable)
	if c.BearerEnv != "" && c.BearerFile != "" {
		part.fail("bearer_file", "and bearer_env are both set; a connector has one credential")
	}
	if basic := part.object("basic"); basic != nil {
		name := d.loader.expand(basic, "username", basic.text("username"))
		c.Basic = &Basic{Username: name, Password: basic.secretRef("password", true)}
		if strings.Contains(c.Basic.Username, ":") {
			basic.fail("username", "is %s, which must not have a colon in it (RFC 7617)", quote(c.Basic.Username))
		}
		basic.close()
	}
	if key := part.object("api_key"); key != nil {
		c.HeaderKey = &HeaderKey{Header: key.id("header", header), Value: key.secretRef("value", true)}
		key.close()
	}
	if oauth := part.object("oauth2"); oauth != nil {
		c.OAuth2 = d.readOAuth2(oauth)
	}
	if signing := part.object("hmac"); signing != nil {
		c.Signing = signing.secretRef("secret", true)
		signing.close()
	}
	var first string
	if c.BearerEnv != "" || c.BearerFile != "" {
		first = "the bearer token"
	}
	for _, name := range []string{"basic", "api_key", "oauth2", "hmac"} {
		if part.take(name) == nil {
			continue
		}
		if first != "" {
			part.fail(name, "and %s are both set; a connector has one credential", first)
		}
		first = name
	}
}

// secretRef reads name_env and name_file, of which one is written, or none where it is not needed.
func (o *object) secretRef(name string, needed bool) SecretRef {
	env, file := name+"_env", name+"_file"
	r := SecretRef{Env: o.optID(env, variable), File: o.optText(file)}
	if needed || (o.take(env) != nil && o.take(file) != nil) {
		o.oneOfSettings(name, env, file)
	}
	return r
}

func (d *declared) readOAuth2(part *object) *OAuth2 {
	o := &OAuth2{
		TokenURL:  d.loader.expand(part, "token_url", part.text("token_url")),
		ClientID:  d.loader.expand(part, "client_id", part.text("client_id")),
		Scopes:    part.texts("scopes", nil),
		Grant:     cmp.Or(part.oneOf("grant", GrantClient, GrantRefresh, ""), GrantClient),
		AuthStyle: cmp.Or(part.oneOf("auth_style", AuthInHeader, AuthInParams, ""), AuthInHeader),
	}
	o.ClientSecret = part.secretRef("client_secret", o.Grant == GrantClient)
	if o.Grant == GrantClient {
		part.refuse("is for grant refresh_token; this one is client_credentials", "refresh_token_env", "refresh_token_file")
	} else {
		part.refuse("is for grant client_credentials; a refresh token has scopes already", "scopes")
		o.RefreshToken = part.secretRef("refresh_token", true)
	}
	address := absoluteURL(part, "token_url", o.TokenURL)
	if address != nil && (address.User != nil || address.RawQuery != "" || address.Fragment != "") {
		part.fail("token_url", "must have no user, query or fragment")
		address = nil
	}
	o.AllowedHosts = d.hosts(part, "token_url", address)
	part.close()
	return o
}
