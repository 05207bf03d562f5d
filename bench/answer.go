package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// answer is the head of an HTTP/1 response, as far as the generator cares.
type answer struct {
	status  int
	length  int64 // of the body, -1 when the head does not say
	chunked bool
	last    bool // the connection closes after it
}

// readAnswer reads a head. It allocates nothing, so that the generator is not
// what is measured.
func readAnswer(r *bufio.Reader) (answer, error) {
	a := answer{length: -1}
	line, err := readLine(r)
	if err != nil {
		return a, err
	}
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.")) {
		return a, fmt.Errorf("not an answer: %q", line)
	}
	a.last = line[7] == '0'
	for _, c := range line[9:12] {
		a.status = a.status*10 + int(c-'0')
	}
	for {
		line, err := readLine(r)
		if err != nil {
			return a, fmt.Errorf("inside an answer's head: %w", err)
		}
		if len(line) == 0 {
			return a, nil
		}
		switch line[0] | 0x20 {
		case 'c':
			if value, ok := field(line, "content-length"); ok {
				if a.length, err = strconv.ParseInt(string(value), 10, 64); err != nil {
					return a, fmt.Errorf("content-length: %w", err)
				}
			} else if value, ok := field(line, "connection"); ok {
				a.last = bytes.EqualFold(value, []byte("close")) || a.last && !bytes.EqualFold(value, []byte("keep-alive"))
			}
		case 't':
			if value, ok := field(line, "transfer-encoding"); ok {
				a.chunked = bytes.EqualFold(value, []byte("chunked"))
			}
		}
	}
}

// readLine is a line without its end, valid until the next read.
func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	return bytes.TrimRight(line, "\r\n"), nil
}

// field is the value of a header line when it has the given lower-case name.
func field(line []byte, name string) ([]byte, bool) {
	if len(line) <= len(name) || line[len(name)] != ':' || !bytes.EqualFold(line[:len(name)], []byte(name)) {
		return nil, false
	}
	return bytes.TrimSpace(line[len(name)+1:]), true
}

// readBody reads the body through scratch and tells how long it was.
func (a answer) readBody(r *bufio.Reader, scratch []byte) (int64, error) {
	switch {
	case a.chunked:
		return readChunks(r, scratch)
	case a.length >= 0:
		return discard(r, a.length, scratch)
	case a.last:
		var sum int64
		for {
			n, err := r.Read(scratch)
			sum += int64(n)
			if errors.Is(err, io.EOF) {
				return sum, nil
			}
			if err != nil {
				return sum, err
			}
		}
	}
	return 0, fmt.Errorf("an answer whose body has no end")
}

func readChunks(r *bufio.Reader, scratch []byte) (int64, error) {
	var sum int64
	for {
		line, err := readLine(r)
		if err != nil {
			return sum, err
		}
		size, err := strconv.ParseInt(string(line), 16, 64)
		if err != nil {
			return sum, fmt.Errorf("chunk size: %w", err)
		}
		n, err := discard(r, size, scratch)
		sum += n
		if err != nil {
			return sum, err
		}
		if line, err = readLine(r); err != nil || len(line) != 0 {
			return sum, errors.Join(err, fmt.Errorf("after a chunk: %q", line))
		}
		if size == 0 {
			return sum, nil
		}
	}
}

// discard reads n bytes. Large bodies pass the reader's own buffer by.
func discard(r *bufio.Reader, n int64, scratch []byte) (int64, error) {
	left := n
	for left > 0 {
		got, err := r.Read(scratch[:min(left, int64(len(scratch)))])
		left -= int64(got)
		if err != nil {
			return n - left, err
		}
	}
	return n, nil
}
