package demoidp

import (
	"net/url"
)

// DemoPassword is the password of every one of DemoPeople. The sign-in page says it.
const DemoPassword = "demo"

// DemoPeople are the people of the demo tenant: rita asks for things, nora and sam may decide refunds, otto operates,
// carl can sign in but may decide nothing, and dora looks after contacts.
func DemoPeople() []Person {
	return []Person{
		demoPerson("rita", "Rita Requester", "support-agents"),
		demoPerson("nora", "Nora Lead", "support-leads"),
		demoPerson("sam", "Sam Lead", "support-leads"),
		demoPerson("otto", "Otto Operator", "operators"),
		demoPerson("carl", "Carl Sales", "sales"),
		demoPerson("dora", "Dora Contacts", "sales-ops"),
	}
}

func demoPerson(subject, name, group string) Person {
	return Person{Subject: subject, Name: name, Email: subject + "@example.test", EmailVerified: true,
		Groups: []string{group}, Password: DemoPassword}
}

// DemoSecret is the secret of the web application "holdpoint".
const DemoSecret = "holdpoint-secret"

// DemoClients are the applications of the demo: the web application "holdpoint" (secret DemoSecret) with the
// given redirects, whose origins' root pages are its post-logout redirects; the command line "holdpoint-cli" (public;
// redirect http://127.0.0.1/callback at any port); and "demo-agent" (client credentials, secret "demo-agent-secret",
// audience "holdpoint", so that its token is refused for what it is and not for whom it is meant). Without redirects
// there is no web application.
func DemoClients(redirects ...string) []Client {
	clients := []Client{
		{ID: "holdpoint-cli", Public: true, RedirectURIs: []string{"http://127.0.0.1/callback"}},
		{ID: "demo-agent", Secret: "demo-agent-secret", ClientCredentials: true, Audience: "holdpoint"},
	}
	if len(redirects) == 0 {
		return clients
	}
	web := Client{ID: "holdpoint", Secret: DemoSecret, RedirectURIs: redirects}
	for _, redirect := range redirects {
		// What cannot be parsed is named by New, as a redirect.
		if u, err := url.Parse(redirect); err == nil {
			web.PostLogoutRedirectURIs = append(web.PostLogoutRedirectURIs, u.Scheme+"://"+u.Host+"/")
		}
	}
	return append(clients, web)
}
