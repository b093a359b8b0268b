package crash

import (
	"context"
	"slices"

	"github.com/holdpoint/holdpoint/pkg/demoidp"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// gate is what people meet: the approval service, whoever says who they are, and the mail server that finds them.
type gate struct{ addr, issuer, mail string }

// startGate runs the identity provider in this process, so that it is never killed.
func (w *world) startGate(ctx context.Context) (err error) {
	if !slices.Contains(w.flow.services, ledger.Approval) {
		return nil
	}
	if w.gate.addr, err = freeAddr(); err != nil {
		return err
	}
	if w.gate.mail, err = w.provider.SMTPAddr(ctx); err != nil {
		return err
	}
	provider, err := demoidp.New(demoidp.Config{Addr: "127.0.0.1:0", People: demoidp.DemoPeople(),
		Clients: demoidp.DemoClients(w.gate.url() + "/callback"), Logger: w.log})
	if err != nil {
		return err
	}
	w.gate.issuer = provider.Issuer()
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = provider.Run(running) // ends with close
	}()
	w.onClose(func() {
		stop()
		<-ended
	})
	return nil
}

func (g *gate) url() string { return "http://" + g.addr }

// environment is what the approval service needs besides. A service that is started again listens where it did.
func (g *gate) environment() []string {
	if g.addr == "" {
		return nil
	}
	return []string{
		"HOLDPOINT_APPROVAL_ADDR=" + g.addr,
		"HOLDPOINT_APPROVAL_PUBLIC_URL=" + g.url(),
		"HOLDPOINT_APPROVAL_ISSUER=" + g.issuer,
		"HOLDPOINT_APPROVAL_CLIENT_SECRET=" + demoidp.DemoSecret,
		"HOLDPOINT_SANDBOX_SMTP=" + g.mail,
	}
}
