package canonical

import (
	"fmt"
	"strings"
	"testing"
)

var event = []byte(`{"specversion":"1.0","type":"crm.contact.changed","id":"evt_01HZX","data":{"target":{"system":"crm",` +
	`"record_id":"c-4711"},"proposed_change":{"email":"ada@example.org","credit_limit":1250.50,"tags":["vip","eu"]},` +
	`"current_version":"v7","evidence":[{"source":"crm","version":"v7","observed_at":"2026-11-29T10:00:00Z"},` +
	`{"source":"erp","version":"12","observed_at":"2026-11-29T10:00:01Z"}],"uncertainty":0.25,` +
	`"note":"Grüße,\nAda said \"yes\""}}`)

func BenchmarkParse(b *testing.B) {
	b.ReportAllocs()
	b.SetBytes(int64(len(event)))
	for b.Loop() {
		if _, err := Parse(event); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParseAndHash(b *testing.B) {
	b.ReportAllocs()
	b.SetBytes(int64(len(event)))
	for b.Loop() {
		v, err := Parse(event)
		if err != nil {
			b.Fatal(err)
		}
		Hash(v)
	}
}

func BenchmarkAppendCanonical(b *testing.B) {
	v, err := Parse(event)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	var buf []byte
	for b.Loop() {
		buf = v.AppendCanonical(buf[:0])
	}
	b.SetBytes(int64(len(buf)))
}

// BenchmarkParseLarge shows that time and memory grow with the input and no faster.
func BenchmarkParseLarge(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var text strings.Builder
			for i := range n {
				fmt.Fprintf(&text, `,"k%d":%d.25`, (i*7919)%n, i)
			}
			data := []byte("{" + text.String()[1:] + "}")
			b.ReportAllocs()
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if _, err := Parse(data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
