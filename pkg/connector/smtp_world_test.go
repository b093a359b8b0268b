package connector

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/config"
)

// office is a mail server by a library, on a line that can be cut, hung or answered by another at any stage. Its store is what it took.
type office struct {
	t     *testing.T
	addr  string
	fault disturbance
	// rcpt and data are what the server answers to a recipient and to the end of a message in place of taking them.
	rcpt map[string]*smtp.SMTPError
	data *smtp.SMTPError
	// username and password of the login, which is needed where they are set.
	username, password string
	implicit           bool          // TLS from the first byte
	gone               chan struct{} // closed when the test ends

	mu    sync.Mutex
	store []posted
	lines []string // commands as they came
}

type posted struct {
	from string
	to   []string
	raw  string
}

// disturbance is what happens at a stage: greeting, a command by its word, body (the first bytes of the message), or dot (the answer to
// its end, when the server has it).
type disturbance struct {
	at   string
	does string // cut, hang, or the answer that the client gets in place of the server's
}

// opening is an office's settings before it opens.
type opening func(*office, *smtp.Server)

func openOffice(t *testing.T, settings ...opening) *office {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	o := &office{t: t, addr: listener.Addr().String(), gone: make(chan struct{}), rcpt: map[string]*smtp.SMTPError{}}
	server := smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) {
		return &visit{office: o, conn: c}, nil
	}))
	server.Domain, server.ErrorLog, server.AllowInsecureAuth = "office.test", silent{}, true
	server.ReadTimeout, server.WriteTimeout = 10*time.Second, 10*time.Second
	for _, set := range settings {
		set(o, server)
	}
	var line net.Listener = &disturbed{Listener: listener, office: o}
	if o.implicit {
		line = tls.NewListener(line, server.TLSConfig)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(line)
	}()
	t.Cleanup(func() {
		close(o.gone)
		_ = server.Close()
		_ = listener.Close() // the server does not know of one that it has not begun to serve
		<-served
	})
	return o
}

type silent struct{}

func (silent) Printf(string, ...any) {}
func (silent) Println(...any)        {}

func (o *office) taken() []posted {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]posted(nil), o.store...)
}

func (o *office) said() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(o.lines, "\n")
}

// visit is one session at the server.
type visit struct {
	office *office
	conn   *smtp.Conn
	now    posted
	known  bool
}

func (v *visit) AuthMechanisms() []string {
	if v.office.username == "" {
		return nil
	}
	return []string{sasl.Plain}
}

func (v *visit) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, username, password string) error {
		if username != v.office.username || password != v.office.password {
			return &smtp.SMTPError{Code: 535, EnhancedCode: smtp.EnhancedCode{5, 7, 8}, Message: "not with " + password}
		}
		v.known = true
		return nil
	}), nil
}

func (v *visit) Mail(from string, _ *smtp.MailOptions) error {
	if v.office.username != "" && !v.known {
		return &smtp.SMTPError{Code: 530, EnhancedCode: smtp.EnhancedCode{5, 7, 0}, Message: "who"} // RFC 4954
	}
	v.now = posted{from: from}
	return nil
}

func (v *visit) Rcpt(to string, _ *smtp.RcptOptions) error {
	if refused := v.office.rcpt[to]; refused != nil {
		return refused
	}
	v.now.to = append(v.now.to, to)
	return nil
}

func (v *visit) Data(r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return err // no dot came
	}
	if v.office.data != nil {
		return v.office.data
	}
	v.office.mu.Lock()
	defer v.office.mu.Unlock()
	v.now.raw = string(raw)
	v.office.store = append(v.office.store, v.now)
	return nil
}

func (v *visit) Reset() {
	v.now = posted{}
}

func (v *visit) Logout() error { return nil }

// disturbed wraps the connections of a server that are not encrypted.
type disturbed struct {
	net.Listener
	office *office
}

func (d *disturbed) Accept() (net.Conn, error) {
	c, err := d.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &disturbedConn{Conn: c, office: d.office, stage: "greeting"}, nil
}

// disturbedConn reads along. stage is what the server answers next.
type disturbedConn struct {
	net.Conn
	office *office
	stage  string
	inBody bool
	body   bytes.Buffer
}

// Read hands the server what the client says, or acts in its place.
func (c *disturbedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil {
		return n, err
	}
	if c.inBody {
		c.body.Write(b[:n])
		if c.office.fault.at == "body" {
			return c.act(b)
		}
		if bytes.HasSuffix(c.body.Bytes(), []byte("\r\n.\r\n")) {
			c.inBody, c.stage = false, "dot"
		}
		return n, nil
	}
	line := strings.TrimSpace(string(b[:n]))
	word, _, _ := strings.Cut(line, " ")
	c.office.mu.Lock()
	c.office.lines = append(c.office.lines, line)
	c.office.mu.Unlock()
	if c.stage = strings.ToUpper(word); c.stage == c.office.fault.at {
		return c.act(b)
	}
	return n, nil
}

// act cuts, hangs, or answers and goes on to the next line.
func (c *disturbedConn) act(b []byte) (int, error) {
	switch does := c.office.fault.does; does {
	case "cut":
		_ = c.Conn.(*net.TCPConn).SetLinger(0)
		_ = c.Conn.Close()
		return 0, io.EOF
	case "hang":
		<-c.office.gone
		return 0, io.EOF
	default:
		if _, err := io.WriteString(c.Conn, does+"\r\n"); err != nil {
			return 0, err
		}
		return c.Read(b)
	}
}

// Write sends what the server answers, or acts in its place.
func (c *disturbedConn) Write(b []byte) (int, error) {
	at := c.office.fault.at
	if (at == "greeting" || at == "dot") && c.stage == at {
		c.stage = ""
		if _, err := c.act2(); err != nil {
			return 0, err
		}
		return len(b), nil
	}
	if c.stage == "DATA" && bytes.HasPrefix(b, []byte("354")) {
		c.inBody = true
	}
	return c.Conn.Write(b)
}

// act2 is act where the server waits for nothing.
func (c *disturbedConn) act2() (int, error) {
	switch does := c.office.fault.does; does {
	case "cut", "hang":
		return c.act(nil)
	default:
		return io.WriteString(c.Conn, does+"\r\n")
	}
}

// operationID is like the ledger's.
const operationID = "op1-0123456789abcdef"

// mailing is a message for an operation; change is JSON.
func mailing(t *testing.T, change string) Operation {
	t.Helper()
	action, err := canonical.Parse([]byte(`{"target":{"system":"mail","record_id":"c-1"},"proposed_change":` + change + `}`))
	require.NoError(t, err)
	return Operation{Name: "send", Action: action, OperationID: operationID, TenantID: "acme", CorrelationID: "corr-1",
		FirstAttempt: time.Date(2026, 3, 4, 5, 6, 7, 8, time.FixedZone("", 3600))}
}

const toRita = `{"to":"rita@example.com","name":"Rita","words":"Your refund is on its way."}`

// mailer is a connector to an office.
func mailer(t *testing.T, o *office, changes ...func(*Config)) *Mailer {
	t.Helper()
	c := Config{Connector: letters(o.addr), Env: func(name string) string {
		return map[string]string{"MAIL_USER": "holdpoint", "MAIL_PASSWORD": "s3cret-word"}[name]
	}}
	for _, change := range changes {
		change(&c)
	}
	m, err := NewMailer(c)
	require.NoError(t, err)
	return m
}

func letters(server string) *config.Connector {
	return &config.Connector{ID: "letters", Kind: config.ConnectorSMTP, Timeout: 5 * time.Second,
		Mail: &config.MailServer{Server: server, TLS: config.TLSNone, From: "support@holdpoint.example"},
		Operations: []*config.Operation{{Name: "send", Kind: config.OperationSend, Mail: &config.Mail{
			To: []string{"${proposed_change.to}"}, Subject: "About your order, ${proposed_change.name}",
			Text: "Dear ${proposed_change.name},\n\n${proposed_change.words}\n.\nYours\n"}}}}
}

func (m *Mailer) letter(t *testing.T, change string) *Request {
	t.Helper()
	r, err := m.Prepare(t.Context(), mailing(t, change))
	require.NoError(t, err)
	return r
}
