package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdpoint/holdpoint/pkg/demoidp"
)

// person is somebody who can sign in at the running system's provider.
type person struct {
	Login    string   `json:"login"`
	Password string   `json:"password"`
	Name     string   `json:"name"`
	Groups   []string `json:"groups"`
}

// renewBefore is how long before its expiry a token is renewed: longer than a call can take.
const renewBefore = 2 * time.Minute

// reviewer is a person with an access token that is never about to expire. Deciders share one.
type reviewer struct {
	person person
	issuer string

	mu     sync.Mutex
	tokens demoidp.Tokens
}

// reviewersOf returns the people of the ready file who are in the group.
func reviewersOf(system ready, group string) ([]*reviewer, error) {
	var found []*reviewer
	for _, p := range system.People {
		if slices.Contains(p.Groups, group) {
			found = append(found, &reviewer{person: p, issuer: system.OIDCIssuer})
		}
	}
	var errs []error
	if system.ApprovalURL == "" || system.OIDCIssuer == "" {
		errs = append(errs, errors.New("the ready file has no approval_url or no oidc_issuer: nobody can decide there"))
	}
	if len(found) == 0 {
		errs = append(errs, fmt.Errorf("the ready file has nobody in the group %s, who would decide", group))
	}
	return found, errors.Join(errs...)
}

// token returns an access token, after a new sign-in where the one before is old. Each sign-in types the password anew,
// so that it is never older than a token lives, and recent enough for every action of the example (A6).
func (r *reviewer) token(ctx context.Context) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Until(r.tokens.Expiry) > renewBefore {
		return r.tokens.AccessToken, nil
	}
	tokens, err := demoidp.SignIn(ctx, demoidp.SignInConfig{
		Issuer: r.issuer, ClientID: "holdpoint-cli", RedirectURI: "http://127.0.0.1/callback",
		Login: r.person.Login, Password: r.person.Password,
	})
	if err != nil {
		return "", fmt.Errorf("sign %s in: %w", r.person.Login, err)
	}
	r.tokens = tokens
	return tokens.AccessToken, nil
}
