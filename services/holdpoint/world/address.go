package world

// URL is where the HTTP API is, for clients of a test's own. It is another one after a restart of intake.
func (w *World) URL() string {
	w.t.Helper()
	urls := w.intakes.Load().([]string)
	if len(urls) == 0 {
		w.t.Fatal("no intake runs")
	}
	return urls[0]
}
