package records

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"unicode/utf8"
)

// MaxBody bounds the bytes of a body.
const MaxBody = 64 << 20

// Read is the value of a body of a content type: JSON, or the array of what JSON lines or the
// rows of a CSV have. The error is about "the answer" without saying which one.
func Read(contentType string, body []byte) (Value, error) {
	if len(body) > MaxBody {
		return nil, fmt.Errorf("the answer is longer than %d MiB: ask for fewer records a page", MaxBody>>20)
	}
	body = bytes.TrimPrefix(body, []byte("\ufeff"))
	if !utf8.Valid(body) {
		return nil, errors.New("the answer is not UTF-8: abide reads JSON, JSON lines and CSV in UTF-8")
	}
	kind, _, _ := mime.ParseMediaType(contentType)
	var value bytes.Buffer
	var err error
	switch kind {
	case "application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonl", "application/jsonlines", "application/x-jsonlines":
		err = readLines(&value, body)
	case "text/csv":
		err = readCSV(&value, body)
	default:
		err = readJSON(&value, kind, body)
	}
	if err != nil {
		return nil, err
	}
	return value.Bytes(), nil
}

func readJSON(to *bytes.Buffer, kind string, body []byte) error {
	if len(body) == 0 && kind == "" { // as with 204 No Content
		to.WriteString("null")
		return nil
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return errors.New("the answer is empty: abide reads JSON, JSON lines and CSV")
	}
	to.Grow(len(body))
	if err := json.Compact(to, body); err != nil {
		kind = cmp.Or(kind, "none")
		if kind == "text/html" || bytes.HasPrefix(bytes.TrimSpace(body), []byte("<")) {
			return fmt.Errorf("the answer is no JSON, its content type is %s: it is a web page, so check the URL, and whether it needs a login", kind)
		}
		return fmt.Errorf("the answer is no JSON, its content type is %s: %w", kind, err)
	}
	return nil
}

func readLines(to *bytes.Buffer, body []byte) error {
	to.Grow(len(body) + 2)
	to.WriteByte('[')
	n := 0
	for line := range bytes.Lines(body) {
		n++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if to.Len() > 1 {
			to.WriteByte(',')
		}
		if err := json.Compact(to, line); err != nil {
			return fmt.Errorf("line %d of the answer is no JSON: %w", n, err)
		}
	}
	to.WriteByte(']')
	return nil
}

// readCSV makes an object of each row after the first, which has the names.
func readCSV(to *bytes.Buffer, body []byte) error {
	rows := csv.NewReader(bytes.NewReader(body))
	rows.ReuseRecord = true
	to.WriteByte('[')
	var names [][]byte
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("the answer is no CSV: %w", err)
		}
		if names == nil {
			if names, err = columnNames(row); err != nil {
				return err
			}
			continue
		}
		if to.Len() > 1 {
			to.WriteByte(',')
		}
		for i, value := range row {
			separator := byte(',')
			if i == 0 {
				separator = '{'
			}
			text, err := json.Marshal(value)
			if err != nil {
				return err
			}
			to.WriteByte(separator)
			to.Write(names[i])
			to.WriteByte(':')
			to.Write(text)
		}
		to.WriteByte('}')
	}
	to.WriteByte(']')
	return nil
}

func columnNames(row []string) (names [][]byte, err error) {
	seen := map[string]bool{}
	for _, name := range row {
		if seen[name] {
			return nil, fmt.Errorf("the answer is a CSV with two columns named %q", name)
		}
		seen[name] = true
		text, err := json.Marshal(name)
		if err != nil {
			return nil, err
		}
		names = append(names, text)
	}
	return names, nil
}
