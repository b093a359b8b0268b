package client

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Config is what a Client needs. BaseURL and APIKey must be set.
type Config struct {
	// BaseURL is where the API is, without /v1, such as "https://holdpoint.example.com".
	BaseURL string
	// APIKey is sent as a bearer token, and appears in no error.
	APIKey string
	// HTTPClient makes the requests. Its Timeout, if it has one, must be longer than any wait that is asked for. It
	// follows no redirect, whatever it says: a key is for one host. Default: one with a connection for every caller.
	HTTPClient *http.Client
	// AttemptTimeout bounds one request, besides what the server was asked to hold it. Default 10 s.
	AttemptTimeout time.Duration
	// BackoffBase and BackoffCap bound the pause after a failed attempt: the nth is random between zero and
	// min(BackoffCap, BackoffBase * 2^n). Defaults 200 ms and 10 s.
	BackoffBase, BackoffCap time.Duration
	// LongestRetryAfter is the most of a Retry-After that is honoured. Default 1 minute.
	LongestRetryAfter time.Duration
}

// Client calls the API of one tenant. It may be used by many goroutines.
type Client struct {
	config Config
	base   string // ends without a slash
	http   http.Client
}

// New checks the configuration; it calls nobody.
func New(config Config) (*Client, error) {
	config.AttemptTimeout = cmp.Or(config.AttemptTimeout, 10*time.Second)
	config.BackoffBase = cmp.Or(config.BackoffBase, 200*time.Millisecond)
	config.BackoffCap = cmp.Or(config.BackoffCap, 10*time.Second)
	config.LongestRetryAfter = cmp.Or(config.LongestRetryAfter, time.Minute)
	if err := config.validate(); err != nil {
		return nil, err
	}
	c := &Client{config: config, base: strings.TrimRight(config.BaseURL, "/")}
	if config.HTTPClient != nil {
		c.http = *config.HTTPClient
	} else {
		c.http.Transport = newTransport()
	}
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

func (c Config) validate() error {
	var complaints []error
	u, err := url.Parse(c.BaseURL)
	switch {
	case err != nil:
		complaints = append(complaints, errors.New("BaseURL is not a URL"))
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		complaints = append(complaints, errors.New(`BaseURL must be like "https://holdpoint.example.com"`))
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		complaints = append(complaints, errors.New("BaseURL must have no user, query or fragment"))
	}
	if c.APIKey == "" {
		complaints = append(complaints, errors.New("APIKey is missing"))
	}
	if strings.ContainsFunc(c.APIKey, func(r rune) bool { return r <= ' ' || r > '~' }) {
		complaints = append(complaints, errors.New("APIKey has a space, a line end or another character no key has"))
	}
	if min(c.AttemptTimeout, c.BackoffBase, c.BackoffCap, c.LongestRetryAfter) < 0 {
		complaints = append(complaints, errors.New("durations must not be negative"))
	}
	if len(complaints) > 0 {
		return fmt.Errorf("client: %w", errors.Join(complaints...))
	}
	return nil
}

// idleConns is how many connections are kept: as many tasks as one worker can have at once.
const idleConns = maxTake

func newTransport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone() // the standard library's own
	t.MaxIdleConnsPerHost = idleConns
	return t
}
