package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"
)

// BenchmarkForward sends a GET of 1 KiB over kept connections. Client and site are loops
// that allocate nothing, so that the allocations are the proxy's.
func BenchmarkForward(b *testing.B) {
	for _, w := range []clientPath{plain, viaInterception} {
		b.Run(string(w), func(b *testing.B) {
			answer := "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1024\r\nDate: Sat, 21 Nov 2026 11:00:00 GMT\r\nServer: bench\r\n\r\n" + strings.Repeat("a", 1024)
			bed := newRawTestProxy(b, func(c net.Conn, _ string) { io.WriteString(c, answer) }, "intercept: all")
			bed.server.forwarder.log.SetLevel(logrus.InfoLevel)
			conn := bed.open(w)
			in := bufio.NewReaderSize(conn, 16<<10)
			request := []byte(fmt.Sprintf("GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n", w.line("/"), host))
			b.ReportAllocs()
			for b.Loop() {
				conn.Write(request)
				length := 0
				for {
					line, err := in.ReadSlice('\n')
					if err != nil {
						b.Fatal(err)
					}
					if len(line) == 2 {
						break
					}
					length += len(line)
				}
				if _, err := in.Discard(1024); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
