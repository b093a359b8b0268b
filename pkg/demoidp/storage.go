package demoidp

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

const (
	requestLifetime = 15 * time.Minute // to find the password
	codeLifetime    = time.Minute      // RFC 6749, section 4.1.2, allows ten at most
	sessionLifetime = 12 * time.Hour
	mostRequests    = 20_000
	mostSessions    = 20_000
)

var errUnknownClient = errors.New("no such client")

// storage is what the library keeps with us (op.Storage). Tokens are not stored: a signature proves them, and the
// people's present state judges them.
type storage struct {
	people   *people
	clients  map[string]*registered
	key      *signingKey
	requests *shelf[authRequest]
	codes    *shelf[string] // code to request id
	sessions *shelf[session]
	now      func() time.Time
	lifetime time.Duration
}

// session is a browser that somebody has signed in with.
type session struct {
	subject  string
	authTime time.Time
}

func newStorage(c Config, key *signingKey) *storage {
	s := &storage{
		people: newPeople(c.People), clients: map[string]*registered{}, key: key, now: c.Now, lifetime: c.TokenLifetime,
		requests: newShelf[authRequest](requestLifetime, mostRequests, c.Now),
		codes:    newShelf[string](codeLifetime, mostRequests, c.Now),
		sessions: newShelf[session](sessionLifetime, mostSessions, c.Now),
	}
	for _, client := range c.Clients {
		s.clients[client.ID] = &registered{Client: client, lifetime: c.TokenLifetime}
	}
	return s
}

func (s *storage) CreateAuthRequest(_ context.Context, r *oidc.AuthRequest, hint string) (op.AuthRequest, error) {
	if err := checkAuthRequest(r); err != nil {
		return nil, err
	}
	request := authRequest{AuthRequest: *r, id: rand.Text(), hint: hint}
	s.requests.put(request.id, request)
	return &request, nil
}

func (s *storage) AuthRequestByID(_ context.Context, id string) (op.AuthRequest, error) {
	request, ok := s.requests.get(id)
	if !ok {
		return nil, oidc.ErrInvalidRequest().WithDescription("this sign-in has expired: start again at the application")
	}
	return &request, nil
}

func (s *storage) SaveAuthCode(_ context.Context, id, code string) error {
	s.codes.put(code, id)
	return nil
}

// AuthRequestByCode takes the code and its request, so that neither a replay nor a second code of one request yields a
// token, and a wrong verifier cannot be followed by another guess.
func (s *storage) AuthRequestByCode(_ context.Context, code string) (op.AuthRequest, error) {
	id, ok := s.codes.take(code)
	if !ok {
		return nil, errors.New("the code is unknown, used or expired")
	}
	request, ok := s.requests.take(id)
	if !ok {
		return nil, errors.New("the sign-in of this code was completed or has expired")
	}
	return &request, nil
}

func (s *storage) DeleteAuthRequest(_ context.Context, id string) error {
	s.requests.take(id)
	return nil
}

func (s *storage) GetClientByClientID(_ context.Context, id string) (op.Client, error) {
	client, ok := s.clients[id]
	if !ok {
		return nil, errUnknownClient
	}
	return client, nil
}

func (s *storage) AuthorizeClientIDSecret(_ context.Context, id, secret string) error {
	client, ok := s.clients[id]
	if !ok || !client.secretIs(secret) {
		return errors.New("unknown client or wrong secret")
	}
	return nil
}

func (s *storage) ClientCredentials(ctx context.Context, id, secret string) (op.Client, error) {
	if err := s.AuthorizeClientIDSecret(ctx, id, secret); err != nil {
		return nil, err
	}
	return s.GetClientByClientID(ctx, id)
}

func (s *storage) ClientCredentialsTokenRequest(_ context.Context, id string, scopes []string,
) (op.TokenRequest, error) {
	client, ok := s.clients[id]
	if !ok {
		return nil, errUnknownClient
	}
	return &grant{subject: id, clientID: id, audience: client.audience(), scopes: scopes}, nil
}

type endingSession struct{}

// TerminateSession ends the session of the browser that asks and, when an id_token_hint named a person, all of theirs.
func (s *storage) TerminateSession(ctx context.Context, subject, _ string) error {
	if id, ok := ctx.Value(endingSession{}).(string); ok {
		s.sessions.take(id)
	}
	if subject != "" {
		s.sessions.removeIf(func(live session) bool { return live.subject == subject })
	}
	return nil
}

func (s *storage) SigningKey(context.Context) (op.SigningKey, error) { return s.key, nil }

func (s *storage) SignatureAlgorithms(context.Context) ([]jose.SignatureAlgorithm, error) {
	return []jose.SignatureAlgorithm{s.key.algorithm}, nil
}

func (s *storage) KeySet(context.Context) ([]op.Key, error) { return []op.Key{publicKey{s.key}}, nil }

func (s *storage) Health(context.Context) error { return nil }

var (
	_ op.Storage                        = (*storage)(nil)
	_ op.ClientCredentialsStorage       = (*storage)(nil)
	_ op.CanSetUserinfoFromRequest      = (*storage)(nil)
	_ op.CanGetPrivateClaimsFromRequest = (*storage)(nil)
)
