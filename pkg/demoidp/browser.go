package demoidp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
)

// ErrRefused says that the provider did not accept name and password.
var ErrRefused = errors.New("the demo sign-in refused this name and password")

// Browser opens pages as a person's browser does: it keeps cookies, follows redirects and fills in the form of the demo
// sign-in whenever it meets it. For tests and the load driver. One goroutine at a time may use it.
type Browser struct {
	// Client keeps the cookies in its Jar. Its CheckRedirect decides where the browser stops.
	Client *http.Client
	// Login and Password go into the form: a person's Subject and Password.
	Login, Password string
	// Forms counts how often the form was filled in.
	Forms int
}

// NewBrowser starts a browser without cookies.
func NewBrowser(login, password string) *Browser {
	jar, err := cookiejar.New(nil)
	if err != nil {
		panic(err) // cannot be: only options can be wrong
	}
	return &Browser{Client: &http.Client{Jar: jar}, Login: login, Password: password}
}

// Open gets a page, through the demo sign-in if it leads there, and returns the page at the end. The caller closes its
// body. ErrRefused when name and password do not fit.
func (b *Browser) Open(ctx context.Context, address string) (*http.Response, error) {
	return b.open(ctx, b.Client, address)
}

func (b *Browser) open(ctx context.Context, client *http.Client, address string) (*http.Response, error) {
	get, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", address, err)
	}
	answer, err := client.Do(get)
	if err != nil || answer.Header.Get(formHeader) == "" {
		return answer, err
	}
	at := answer.Request.URL
	if err := discard(answer); err != nil {
		return nil, fmt.Errorf("reading the sign-in form: %w", err)
	}
	return b.fillIn(ctx, client, at)
}

func (b *Browser) fillIn(ctx context.Context, client *http.Client, at *url.URL) (*http.Response, error) {
	b.Forms++
	form := url.Values{"id": {at.Query().Get("id")}, "login": {b.Login}, "password": {b.Password}}
	action := at.Scheme + "://" + at.Host + loginPath
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, action, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, fmt.Errorf("sending the sign-in form: %w", err)
	}
	post.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := client.Do(post)
	if err != nil || answer.Header.Get(formHeader) == "" {
		return answer, err
	}
	refusal := fmt.Errorf("%w (login %q, status %d)", ErrRefused, b.Login, answer.StatusCode)
	return nil, errors.Join(refusal, discard(answer))
}

func discard(answer *http.Response) error {
	_, err := io.Copy(io.Discard, answer.Body)
	return errors.Join(err, answer.Body.Close())
}
