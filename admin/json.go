package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
)

// decodeStrictly reads one JSON value. Its errors are fit for a stranger to
// read: they name what is wrong, not types of ours.
func decodeStrictly(body []byte, v any) error {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(v); err != nil {
		if field, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
			return errors.New("the body has an unknown field " + shortened(field))
		}
		if errors.Is(err, errHeaders) {
			return errHeaders
		}
		return errors.New("the body is not the JSON object that is expected here")
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("the body goes on after its JSON object")
	}
	return nil
}

// shortened bounds what a stranger's input can put into an answer.
func shortened(s string) string {
	if len(s) > 80 {
		return strings.ToValidUTF8(s[:80], "") + "…"
	}
	return s
}
