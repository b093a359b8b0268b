package main

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"

	"github.com/holdpoint/holdpoint/pkg/demoidp"
	"github.com/holdpoint/holdpoint/pkg/service"
	"github.com/holdpoint/holdpoint/services/holdpoint/roster"
)

// signIn is how reviewers get in: where their pages are, and who says who they are.
type signIn struct {
	url, issuer string
	people      []personReady
	choices     roster.ApprovalChoices
	parts       []service.Named
}

// startSignIn listens for reviewers, and runs the demo identity provider unless HOLDPOINT_APPROVAL_ISSUER names another.
func startSignIn(f upFlags, dir string, log *slog.Logger) (s signIn, err error) {
	if s.choices.Listener, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", f.approvalPort)); err != nil {
		return s, fmt.Errorf("listen for reviewers (--approval-port): %w", err)
	}
	s.url = cmp.Or(os.Getenv("HOLDPOINT_APPROVAL_PUBLIC_URL"), "http://"+s.choices.Listener.Addr().String())
	s.people = []personReady{}
	if s.issuer = os.Getenv("HOLDPOINT_APPROVAL_ISSUER"); s.issuer != "" {
		return s, nil
	}
	clients := demoidp.DemoClients(s.url + "/callback")
	provider, err := demoidp.New(demoidp.Config{Addr: fmt.Sprintf("127.0.0.1:%d", f.signInPort), People: demoidp.DemoPeople(),
		Clients: clients, KeyFile: filepath.Join(dir, "sign-in-key.pem"), Logger: log})
	if err != nil {
		return s, fmt.Errorf("start the demo identity provider (--sign-in-port): %w", err)
	}
	s.issuer, s.people = provider.Issuer(), demoPeople()
	s.choices.Issuer, s.choices.ClientSecret = s.issuer, demoidp.DemoSecret
	s.parts = []service.Named{{Name: "demo sign-in", Runner: provider}}
	return s, nil
}
