package upstream

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

const (
	maxHeadBytes     = 256 << 10
	maxHeaderLines   = 1000
	maxInformational = 20 // 1xx answers before the final answer
)

// malformedAnswer is an error that tells in which way an answer is not safe to use.
type malformedAnswer string

func (m malformedAnswer) Error() string { return "malformed answer: " + string(m) }

const (
	errNotHTTP      = malformedAnswer("it does not start with HTTP/1.0 or HTTP/1.1 and a status")
	errLineEnd      = malformedAnswer("a line of the head does not end in CR LF")
	errTooLong      = malformedAnswer("the head is longer than allowed")
	errTooManyLines = malformedAnswer("the head has more lines than allowed")
	errName         = malformedAnswer("a header name is not a token")
	errValue        = malformedAnswer("a header value has a control character")
	errFolded       = malformedAnswer("a header line is folded or has no colon")
	errLength       = malformedAnswer("Content-Length is not one number")
	errLengthTwice  = malformedAnswer("Content-Length differs from Content-Length")
	errCoding       = malformedAnswer("Transfer-Encoding is not exactly chunked")
	errBoth         = malformedAnswer("Transfer-Encoding and Content-Length")
	errTrailerName  = malformedAnswer("Trailer names a field that frames the message")
	errEndless1xx   = malformedAnswer("too many 1xx answers")
	errSwitch       = malformedAnswer("101 although nothing was asked for") // -
)

// head is the parsed head of an answer.
type head struct {
	status  string // "200 OK"
	code    int
	minor   int // of HTTP/1.x
	header  http.Header
	trailer http.Header // keys announced by the Trailer header
	framing
	close bool // the origin will close the connection, or does not promise to keep it
}

// readHead reads the head of an answer or, if first is false, the trailers of a chunked
// body, which end alike.
func readHead(br *bufio.Reader, limit int, first bool) (text string, lines int, err error) {
	if first {
		if _, err := br.Peek(1); err != nil {
			return "", 0, err
		}
		if data, _ := br.Peek(min(br.Buffered(), len("HTTP/1."))); !strings.HasPrefix("HTTP/1.", string(data)) {
			return "", 0, errNotHTTP
		}
	}
	var b strings.Builder
	data, _ := br.Peek(br.Buffered())
	b.Grow(bytes.Index(data, []byte("\r\n\r\n")) + len("\r\n\r\n"))
	for start := 0; ; {
		piece, err := br.ReadSlice('\n')
		b.Write(piece)
		switch {
		case b.Len() > limit:
			return "", 0, errTooLong
		case err == bufio.ErrBufferFull:
			continue
		case err == io.EOF:
			return "", 0, io.ErrUnexpectedEOF
		case err != nil:
			return "", 0, err
		}
		switch line := b.String()[start:]; {
		case !strings.HasSuffix(line, "\r\n"):
			return "", 0, errLineEnd
		case len(line) == 2:
			return b.String(), lines, nil
		}
		start = b.Len()
		if lines++; lines > maxHeaderLines {
			return "", 0, errTooManyLines
		}
	}
}

// parseHead parses the text of readHead. Names and values are slices of it.
func parseHead(text string, lines int) (h head, err error) {
	statusLine, rest, _ := strings.Cut(text, "\r\n")
	if h.minor, h.code, h.status, err = parseStatus(statusLine); err != nil {
		return h, err
	}
	h.length = -1
	if h.header, err = parseFields(rest, lines-1, &h.framing); err != nil {
		return h, err
	}
	switch f := &h.framing; {
	case f.codings > 1 || f.codings == 1 && !f.chunked || f.chunked && h.minor == 0:
		return h, errCoding
	case f.chunked && f.length >= 0:
		return h, errBoth
	}
	if h.connection {
		conn := h.header["Connection"]
		h.close = httpguts.HeaderValuesContainsToken(conn, "close") ||
			h.minor == 0 && !httpguts.HeaderValuesContainsToken(conn, "keep-alive")
	} else {
		h.close = h.minor == 0
	}
	if h.chunked {
		delete(h.header, "Transfer-Encoding")
		if h.announced {
			if h.trailer, err = announcedTrailers(h.header["Trailer"]); err != nil {
				return h, err
			}
			delete(h.header, "Trailer")
		}
	}
	return h, nil
}

func parseStatus(line string) (minor, code int, status string, err error) {
	// HTTP/1.1 200 OK
	if len(line) < 12 || line[:7] != "HTTP/1." || line[8] != ' ' || len(line) > 12 && line[12] != ' ' {
		return 0, 0, "", errNotHTTP
	}
	minor = int(line[7]) - '0'
	if minor != 0 && minor != 1 {
		return 0, 0, "", errNotHTTP
	}
	n, err := strconv.ParseUint(line[9:12], 10, 16) // which takes digits only
	if err != nil || n < 100 {
		return 0, 0, "", errNotHTTP
	}
	status = line[9:]
	if !httpguts.ValidHeaderFieldValue(status) {
		return 0, 0, "", errValue
	}
	return minor, int(n), status, nil
}

// framing collects header fields that tell where the body ends.
type framing struct {
	length     int64 // -1 without a Content-Length
	codings    int
	chunked    bool
	connection bool // there is a Connection header
	announced  bool // there is a Trailer header
}

// parseFields reads lines up to the empty line. f is nil for trailers.
func parseFields(rest string, lines int, f *framing) (http.Header, error) {
	header := make(http.Header, lines)
	values := make([]string, 0, lines)
	for {
		var line string
		line, rest, _ = strings.Cut(rest, "\r\n") // readHead has checked the end of every line
		if line == "" {
			return header, nil
		}
		if line[0] == ' ' || line[0] == '\t' {
			return nil, errFolded
		}
		colon := strings.IndexByte(line, ':')
		if colon < 0 {
			return nil, errFolded
		}
		name, value := line[:colon], strings.Trim(line[colon+1:], " \t")
		if !httpguts.ValidHeaderFieldName(name) {
			return nil, errName
		}
		if !httpguts.ValidHeaderFieldValue(value) {
			return nil, errValue
		}
		name = textproto.CanonicalMIMEHeaderKey(name)
		if f != nil {
			if repeated, err := f.add(name, value); err != nil {
				return nil, err
			} else if repeated {
				continue
			}
		}
		if old := header[name]; old != nil {
			header[name] = append(old, value)
			continue
		}
		values = append(values, value)
		header[name] = values[len(values)-1 : len(values) : len(values)]
	}
}

// add evaluates one field. repeated means that the field repeats an earlier one and is
// dropped.
func (f *framing) add(name, value string) (fold bool, err error) {
	switch name {
	case "Content-Length":
		n, err := strconv.ParseUint(value, 10, 63) // which takes digits only
		switch {
		case err != nil:
			return false, errLength
		case f.length >= 0 && f.length != int64(n):
			return false, errLengthTwice
		}
		fold = f.length >= 0
		f.length = int64(n)
	case "Transfer-Encoding":
		f.codings++
		f.chunked = strings.EqualFold(value, "chunked")
	case "Connection":
		f.connection = true
	case "Trailer":
		f.announced = true
	}
	return fold, nil
}

func announcedTrailers(values []string) (http.Header, error) {
	var trailer http.Header
	for _, v := range values {
		for name := range strings.SplitSeq(v, ",") {
			if name = strings.Trim(name, " \t"); name == "" {
				continue
			}
			name = textproto.CanonicalMIMEHeaderKey(name)
			if !allowedTrailer(name) {
				return nil, errTrailerName
			}
			if trailer == nil {
				trailer = make(http.Header)
			}
			trailer[name] = nil
		}
	}
	return trailer, nil
}
