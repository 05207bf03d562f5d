package output_test

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/abide-proxy/abide/jobs/output"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/policy/jobfile"
)

// message is one of the protocol of PostgreSQL.
func message(kind byte, body string) string {
	return string(binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(body)+4))) + body
}

const ready = "Z\x00\x00\x00\x05I"

// hostilePostgres accepts connections and answers with the greeting. Then answer has what follows on a Sync or a simple
// query (Q), by the first message since the last: P for a statement that is prepared, B for one that is executed.
func hostilePostgres(t testing.TB, greeting string, answer func(first byte) string) jobfile.Output {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	serve := func(c net.Conn) {
		defer c.Close()
		head := make([]byte, 5)
		if _, err := io.ReadFull(c, head[:4]); err != nil {
			return
		}
		if _, err := io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint32(head))-4); err != nil {
			return
		}
		if _, err := io.WriteString(c, greeting); err != nil {
			return
		}
		for first := byte(0); ; {
			if _, err := io.ReadFull(c, head); err != nil || head[0] == 'X' {
				return // X is the end
			}
			if _, err := io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint32(head[1:]))-4); err != nil {
				return
			}
			if first == 0 {
				first = head[0]
			}
			if head[0] != 'S' && head[0] != 'Q' {
				continue
			}
			if _, err := io.WriteString(c, answer(first)); err != nil {
				return
			}
			first = 0
		}
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
	return jobfile.Output{URL: policy.NewSecret("postgres://user:password@" + l.Addr().String() + "/db?sslmode=disable")}
}

// letIn lets a client in without a password.
var letIn = message('R', "\x00\x00\x00\x00") + ready

func TestAnErrorOfAPostgreSQLIsOnePrintableLine(t *testing.T) {
	text := "SFATAL\x00VFATAL\x00C28000\x00M\x1b]0;title\x07\x1b[2J" + strings.Repeat("\x1b[31m\n", 2_000_000) + "\x00\x00"
	for _, at := range []jobfile.Output{
		hostilePostgres(t, message('E', text), nil),
		hostilePostgres(t, letIn, func(byte) string { return message('E', text) + ready }),
	} {
		_, err := output.Open(t.Context(), at, output.Options{})
		if err == nil || len(err.Error()) > 700 || strings.ContainsAny(err.Error(), "\x1b\x07\n") {
			t.Errorf("%.1000q", err)
		}
	}
}

func TestNoAnswerOfAPostgreSQLEndsTheProcess(t *testing.T) {
	field := func(name string, oid string) string {
		return name + "\x00\x00\x00\x00\x00\x00\x00" + oid + "\x00\x08\xff\xff\xff\xff\x00\x00"
	}
	prepared := message('1', "") + message('t', "\x00\x00") + message('T', "\x00\x01"+field("a", "\x00\x00\x00\x19")) + ready
	for name, rows := range map[string]string{
		"a row with more values":     message('D', "\x00\x03"+strings.Repeat("\x00\x00\x00\x011", 3)),
		"a row with fewer values":    message('D', "\x00\x00"),
		"a length that is negative":  message('D', "\x00\x01\xff\xff\x00\x00"),
		"a number of a wrong length": message('D', "\x00\x01\x00\x00\x00\x03abc"),
		"a head of 1 GB":             "D\x3f\xff\xff\xf0",
	} {
		at := hostilePostgres(t, letIn, func(first byte) string {
			switch first {
			case 'P':
				return prepared
			case 'B':
				return message('2', "") + rows + message('C', "SELECT 1\x00") + ready
			}
			return message('3', "") + message('C', "SET\x00") + ready
		})
		done := make(chan error, 1)
		go func() {
			o, err := output.Open(t.Context(), at, output.Options{})
			if err == nil {
				_, err = o.Jobs(t.Context())
				err = errors.Join(err, o.Close())
			}
			done <- err
		}()
		select {
		case err := <-done:
			if err == nil || len(err.Error()) > 1000 {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(5 * time.Second):
			t.Errorf("%s: no end", name)
		}
	}
}
