package proxy

import (
	"strings"

	"github.com/sirupsen/logrus"
)

// serverLog receives the log lines of net/http and goproxy. Both may put URLs, with their
// passwords and queries, into a line, so only the kind of event is logged, at level debug.
type serverLog struct{ log *logrus.Logger }

func (l serverLog) Write(p []byte) (int, error) {
	l.log.Debug("http server: ", eventOf(string(p)))
	return len(p), nil
}

func (l serverLog) Printf(format string, _ ...any) { l.log.Debug("goproxy: ", eventOf(format)) }

// eventOf is the constant begin of a line of net/http or goproxy: the words before the
// first text that a client or site may have chosen.
func eventOf(line string) string {
	for _, mark := range []string{"http:", "%", "\"", "://"} {
		if mark == "http:" {
			if rest, ok := strings.CutPrefix(line, mark); ok {
				line = strings.TrimSpace(rest)
			}
			continue
		}
		line, _, _ = strings.Cut(line, mark)
	}
	words := strings.Fields(line)
	return strings.Join(words[:min(len(words), 6)], " ")
}
