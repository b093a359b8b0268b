// Command sandbox runs the sandbox provider as its own process until SIGINT or SIGTERM.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var cfg sandbox.Config
	flag.StringVar(&cfg.Addr, "addr", "127.0.0.1:0", "`host:port` to listen on; port 0 takes a free one")
	smtpPort := flag.Int("smtp-port", 0, "`port` on 127.0.0.1 to take mail on; 0 takes a free one")
	flag.StringVar(&cfg.DataDir, "data", "", "`directory` of the ledger (required)")
	flag.StringVar(&cfg.ReadyFile, "ready-file", "", "`file` to write {url, addr, smtp, pid} to once listening")
	flag.Parse()
	cfg.SMTPAddr = net.JoinHostPort("127.0.0.1", strconv.Itoa(*smtpPort))
	if err := sandbox.Run(ctx, cfg); err != nil {
		fmt.Fprintln(os.Stderr, "sandbox:", err)
		os.Exit(1)
	}
}
