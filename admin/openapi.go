package admin

import (
	"net/http"
	"sync"
)

// apiDocument answers with the description of the API, which is made when it is first asked for.
type apiDocument struct{ made func() map[string]any }

func newAPIDocument(version string) apiDocument {
	return apiDocument{sync.OnceValue(func() map[string]any { return describeAPI(version) })}
}

func (d apiDocument) answer(w http.ResponseWriter, _ *http.Request) { answerJSON(w, d.made()) }
