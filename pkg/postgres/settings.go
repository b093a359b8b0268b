package postgres

import (
	"maps"
	"slices"
	"strconv"
)

// settings are the server parameters of a two-core machine. They are given on the command line so that each start
// uses the values of the running release. The measured reasons: batches gain nothing from a looser
// synchronous_commit, churned tables need an eager autovacuum, and an idle transaction pins dead rows that slow every
// queue.
func (c *ServerConfig) settings(port int) map[string]string {
	s := map[string]string{
		"listen_addresses":                    "127.0.0.1",
		"port":                                strconv.Itoa(port),
		"unix_socket_directories":             c.SocketDir,
		"max_connections":                     "200",
		"shared_buffers":                      "256MB",
		"max_wal_size":                        "2GB",
		"wal_compression":                     "on",
		"checkpoint_completion_target":        "0.9",
		"synchronous_commit":                  "on",
		"fsync":                               "on",
		"full_page_writes":                    "on",
		"idle_in_transaction_session_timeout": "30s",
		"autovacuum_naptime":                  "10s",
		"autovacuum_vacuum_scale_factor":      "0.02",
		"autovacuum_vacuum_threshold":         "1000",
		"autovacuum_vacuum_cost_delay":        "0",
		"jit":                                 "off", // Compiling short statements costs more than it saves.
		"timezone":                            "UTC",
		"log_timezone":                        "UTC",
		"password_encryption":                 "scram-sha-256",
	}
	if !c.Durable {
		maps.Copy(s, throwawaySettings)
	}
	maps.Copy(s, c.Settings)
	return s
}

// throwawaySettings trade the data for a quick start and a small footprint: many test binaries run one server each.
var throwawaySettings = map[string]string{
	"shared_buffers":   "32MB",
	"fsync":            "off",
	"full_page_writes": "off",
	"max_wal_size":     "256MB",
	"min_wal_size":     "32MB",
	"max_wal_senders":  "0",
	"wal_level":        "minimal",
}

// arguments turns settings into command-line arguments in a stable order.
func arguments(settings map[string]string) []string {
	var args []string
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		args = append(args, "-c", name+"="+settings[name])
	}
	return args
}
