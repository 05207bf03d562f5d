package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
)

// maxBody is more than any request of the API needs.
const maxBody = 1 << 20

// problem is an error as RFC 9457 has it.
type problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
}

func refuse(w http.ResponseWriter, status int, detail string) {
	answer(w, status, "application/problem+json", problem{http.StatusText(status), status, detail})
}

func answerJSON(w http.ResponseWriter, v any) {
	answer(w, http.StatusOK, "application/json", v)
}

func answer(w http.ResponseWriter, status int, kind string, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Errorf("encoding an answer: %w", err))
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // a client that has left needs no answer
}

// readJSON reads the body of a request into v, which may be empty. It answers
// the request itself when the body is not what it has to be.
func readJSON(w http.ResponseWriter, r *http.Request, v any) bool {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		refuse(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is longer than %d bytes", maxBody))
		return false
	case err != nil:
		refuse(w, http.StatusBadRequest, "the body could not be read")
		return false
	case len(body) == 0:
		return true
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		w.Header().Set("Accept", "application/json")
		refuse(w, http.StatusUnsupportedMediaType, "the body must be application/json")
		return false
	}
	if err := decodeStrictly(body, v); err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return false
	}
	return true
}
