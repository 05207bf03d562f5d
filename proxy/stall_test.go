package proxy

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestAStreamThatIsCutForItsSilenceIsTold: the client sees a broken answer with status 200, so abide has to say who cut
// it, and what to do.
func TestAStreamThatIsCutForItsSilenceIsTold(t *testing.T) {
	for _, c := range []struct{ scheme, rule, says string }{
		{"http", "timeouts: {stall: 1s}", `rule=none`},
		{"https", "sites: [{name: models, host: " + host + ", stall: 1s}]", `rule=models`},
	} {
		b := newTestProxy(t, c.rule, "intercept: all")
		b.handle(func(rw http.ResponseWriter, r *http.Request) {
			fmt.Fprint(rw, "data: 1\n\n")
			http.NewResponseController(rw).Flush()
			<-r.Context().Done()
		})
		for range 2 {
			resp, err := b.client(true).Get(c.scheme + "://" + host + "/secret-path")
			must(t, err)
			_, err = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if resp.StatusCode != 200 || err == nil {
				t.Errorf("%d, %v", resp.StatusCode, err)
			}
		}
		b.stop()
		if n := b.metricValue(`abide_own_refusals_total{reason="stalled"}`); n != 2 {
			t.Errorf("%s: counted %d times", c.scheme, n)
		}
		text := b.log.String()
		for _, part := range []string{"level=warning", "the answer was cut", "set stall: off", c.says, "waited=1s"} {
			if strings.Count(text, part) != 1 {
				t.Errorf("%s: the log does not have %q once: %s", c.scheme, part, text)
			}
		}
		if strings.Contains(text, "secret-path") {
			t.Errorf("the log has the path: %s", text)
		}
	}
}
