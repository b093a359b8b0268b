package demoidp

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/oauth2"
)

func TestLoginPage(t *testing.T) {
	t.Parallel()

	t.Run("SaysWhatItIsAndListsThePeople", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		answer := get(t, w.formURL(t))
		text := body(t, answer)
		require.Equal(t, http.StatusOK, answer.StatusCode)
		require.Contains(t, text, "Demo sign-in.")
		require.Contains(t, text, "must never be exposed")
		require.Contains(t, text, "<code>demo</code>")
		for _, person := range DemoPeople() {
			require.Contains(t, text, `value="`+person.Subject+`"`)
			require.Contains(t, text, person.Name)
		}
		require.NotContains(t, text, "<script")
		require.Contains(t, answer.Header.Get("Content-Security-Policy"), "default-src 'none'")
		require.Equal(t, "no-store", answer.Header.Get("Cache-Control"))
		require.Contains(t, body(t, get(t, w.Issuer()+stylePath)), "prefers-color-scheme: dark")
	})

	t.Run("EnterSignsInWhomTheApplicationHintedAt", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		first := regexp.MustCompile(`<button type="submit" name="login" value="([^"]*)" hidden>`)
		hinted := body(t, get(t, w.formURL(t, oauth2.SetAuthURLParam("login_hint", "sam"))))
		require.Equal(t, "sam", first.FindStringSubmatch(hinted)[1])
		unknown := body(t, get(t, w.formURL(t, oauth2.SetAuthURLParam("login_hint", `"><script>`))))
		require.Empty(t, first.FindStringSubmatch(unknown)[1])
		require.NotContains(t, unknown, "<script")

		answer := w.submit(t, w.formURL(t), http.Header{}, "", DemoPassword)
		require.Equal(t, http.StatusBadRequest, answer.StatusCode)
		require.Contains(t, body(t, answer), "Press the button")
	})

	t.Run("DemoPasswordIsNotSaidWhenNobodyHasIt", func(t *testing.T) {
		t.Parallel()
		p, err := New(Config{Addr: "127.0.0.1:0", Clients: DemoClients(webRedirect),
			People: []Person{{Subject: "ada", Name: "Ada", Password: "other"}}})
		require.NoError(t, err)
		run(t, p)
		text := body(t, get(t, (&world{Provider: p}).formURL(t)))
		require.NotContains(t, text, "<code>")
		require.Contains(t, text, "passwords of their own")
	})

	t.Run("UnknownOrOldRequestIsExplained", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		form := w.formURL(t)
		w.advance(requestLifetime)
		answer := get(t, form)
		require.Equal(t, http.StatusBadRequest, answer.StatusCode)
		require.Contains(t, body(t, answer), "This sign-in has expired")
		answer = w.submit(t, form, http.Header{}, "nora", DemoPassword)
		require.Equal(t, http.StatusBadRequest, answer.StatusCode)
		require.Empty(t, answer.Cookies())
		body(t, answer)
	})
}

func TestPassword(t *testing.T) {
	t.Parallel()

	t.Run("RefusalDoesNotTellWhy", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		require.NoError(t, w.Disable("sam", true))
		form := w.formURL(t)
		refusal := func(login, password string) string {
			answer := w.submit(t, form, http.Header{}, login, password)
			require.Equal(t, http.StatusUnauthorized, answer.StatusCode)
			require.Empty(t, answer.Cookies())
			return body(t, answer)
		}
		wrong := refusal("nora", "guess")
		require.Contains(t, wrong, "That password does not fit. Nobody was signed in.")
		require.Equal(t, wrong, refusal("nobody", DemoPassword))
		require.Equal(t, wrong, refusal("nobody", ""))
		require.Equal(t, wrong, refusal("sam", DemoPassword))
	})

	t.Run("FormCanBeTriedAgain", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		form := w.formURL(t)
		body(t, w.submit(t, form, http.Header{}, "nora", "guess"))
		answer := w.submit(t, form, http.Header{}, "nora", DemoPassword)
		body(t, answer)
		require.Equal(t, http.StatusSeeOther, answer.StatusCode)
	})

	t.Run("SessionCookieIsKeptFromScriptsAndOtherSites", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		answer := w.submit(t, w.formURL(t), http.Header{}, "nora", DemoPassword)
		body(t, answer)
		require.Len(t, answer.Cookies(), 1)
		cookie := answer.Cookies()[0]
		require.True(t, cookie.HttpOnly)
		require.Equal(t, http.SameSiteLaxMode, cookie.SameSite)
		require.GreaterOrEqual(t, len(cookie.Value), 26)
	})

	t.Run("FormOfAnotherSiteIsRefused", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		form := w.formURL(t)
		for _, foreign := range []http.Header{
			{"Sec-Fetch-Site": {"cross-site"}},
			{"Origin": {"http://evil.example"}},
		} {
			answer := w.submit(t, form, foreign, "nora", DemoPassword)
			body(t, answer)
			require.Equal(t, http.StatusForbidden, answer.StatusCode)
			require.Empty(t, answer.Cookies())
		}
	})

	t.Run("CallbackWithoutAPasswordYieldsNoCode", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		form := w.formURL(t)
		_, id, _ := strings.Cut(form, "?id=")
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.Issuer()+"/authorize/callback?id="+id, nil)
		require.NoError(t, err)
		answer, err := noRedirects.Do(r)
		require.NoError(t, err)
		body(t, answer)
		require.Contains(t, answer.Header.Get("Location"), "error=interaction_required")
		require.NotContains(t, answer.Header.Get("Location"), "code=")
	})
}
