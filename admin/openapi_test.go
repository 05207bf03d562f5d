package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/abide-proxy/abide/admin/openapi"
	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
)

func TestEveryRouteHasAHandlerAndAllButTheFormsAreDocumented(t *testing.T) {
	o := Options{Metrics: metrics.New(1), Policy: policy.Defaults}
	api := newAPI(&o, newGuard(o.Policy, o.Metrics, nil))
	documented := api.Document()["paths"].(openapi.Schema)
	for _, one := range api.Operations {
		_, path, _ := strings.Cut(one.Route, " ")
		if one.Handler == nil {
			t.Errorf("%s has no handler", one.Route)
		}
		if _, ok := documented[path]; ok != (strings.HasPrefix(path, "/api/") || one.Open || path == "/metrics") {
			t.Errorf("%s is documented: %v", one.Route, ok)
		}
	}
}

// apiFault is the error of whatever a request asks for, nil for none.
type apiFault struct{ err error }

// everything is a process that answers all requests: with something in every field, or with
// nothing at all.
func everything(full bool, fault *apiFault) func(*policy.Policy, *given) {
	return func(_ *policy.Policy, o *given) {
		if full {
			fillAnswers(o)
		}
		failing := func() error { return fault.err }
		o.Tokens = func() status.Tokens {
			pool := status.Pool{Name: "example", Tokens: []status.Token{{Label: "news-1", State: "ready"}}}
			if full {
				pool = filled[status.Pool]()
				pool.Name, pool.Tokens[0].Label = "example", "news-1"
			}
			return status.Tokens{Pools: []status.Pool{pool}, Limits: filledIf[[]status.Announced](full)}
		}
		o.Disable, o.Enable = func(string, string) error { return failing() }, func(string, string) error { return failing() }
		o.Explain = func(string, string, string) (status.Explanation, error) {
			return filledIf[status.Explanation](full), failing()
		}
		o.SetLimits = func(_ context.Context, _ string, body []byte) error {
			_, err := policy.ParseLimits(body)
			return errors.Join(failing(), err)
		}
		o.ClearLimits = func(context.Context, string) (bool, error) { return true, failing() }
		o.Forget = func(string) ([]status.Forgotten, error) {
			return append([]status.Forgotten{}, filledIf[[]status.Forgotten](full)...), failing()
		}
		o.PauseSite = func(string, status.Pause) error { return failing() }
		o.ResumeSite = func(string) (bool, error) { return true, failing() }
		o.TrySite = func(string) error { return failing() }
		o.Permit = func(_ context.Context, a status.PermitAsk) (status.Grant, error) {
			if a.Queued != nil {
				a.Queued()
			}
			return filledIf[status.Grant](full), failing()
		}
		o.Settle = func(id string, _ status.PermitEnd) error {
			if id == missingName {
				return status.Missing("there is no such permit")
			}
			return failing()
		}
		o.Bandwidth = func(context.Context, string, time.Time, time.Time, time.Duration) ([]status.Traffic, error) {
			return filledIf[[]status.Traffic](full), failing()
		}
		o.Advice = func(time.Time) status.AdviceList {
			list := filledIf[status.AdviceList](full)
			list.Advice = append([]status.Advice{}, list.Advice...)
			return list
		}
		o.Report = func(context.Context, string, string, time.Time, time.Time, time.Duration) (status.Report, error) {
			return filledIf[status.Report](full), failing()
		}
		o.PauseJob = func(name string, _ bool) error {
			if name == missingName {
				return status.Missing("there is no such job")
			}
			return failing()
		}
		o.Reload = func() ([]string, error) { return filledIf[[]string](full), failing() }
		o.Learned = func() []string { return []string{"api.example.com"} }
	}
}

// filledIf is a filled value, or none.
func filledIf[T any](full bool) (v T) {
	if full {
		return filled[T]()
	}
	return v
}

// fillAnswers has what cannot fail answer with something in every field.
func fillAnswers(o *given) {
	o.Ready = func() []status.Check { return filled[[]status.Check]() }
	o.Refused = func() *status.RefusedReload { return filled[*status.RefusedReload]() }
	o.Holds = func(string, int) []status.Hold { return filled[[]status.Hold]() }
	o.Breakers = func() []status.Breaker { return filled[[]status.Breaker]() }
	o.Limits = func() []status.Limit { return filled[[]status.Limit]() }
	o.Overrides = func() map[string][]policy.Limit {
		limits, err := policy.ParseLimits([]byte(`{"limits": [{"requests": 10, "per": "1s"}, {"as": "adaptive", "min": "1/s", "max": "5/s"}, {"bytes": "1MB", "per": "1m"}]}`))
		if err != nil {
			panic(err)
		}
		return map[string][]policy.Limit{"api.example.com": limits}
	}
	o.Pauses = func() map[string]status.Pause {
		return map[string]status.Pause{"api.example.com": filled[status.Pause]()}
	}
	o.Forecast = func(string, int64) []status.Forecast { return filled[[]status.Forecast]() }
	o.Jobs = func() []status.Job { return filled[[]status.Job]() }
	o.Store = func(context.Context) status.Store { return filled[status.Store]() }
}

// described is the document as it is served, with what checks answers against it.
type described struct {
	t        *testing.T
	document map[string]any
	schemas  *jsonschema.Compiler
}

// describedBy reads the document of a listener.
func describedBy(t *testing.T, b *bed) *described {
	t.Helper()
	r := b.get("/api/v1/openapi.json")
	text, err := jsonschema.UnmarshalJSON(strings.NewReader(r.body))
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%d %v", r.StatusCode, err)
	}
	d := &described{t, text.(map[string]any), jsonschema.NewCompiler()}
	d.schemas.AssertFormat()
	if err := d.schemas.AddResource("openapi.json", text); err != nil {
		t.Fatal(err)
	}
	return d
}

// at is a part of the document, by its keys.
func (d *described) at(keys ...string) (part any) {
	part = d.document
	for _, key := range keys {
		object, _ := part.(map[string]any)
		part = object[key]
	}
	return part
}

// valid checks JSON against the schema at a place of the document.
func (d *described) valid(v any, keys ...string) error {
	var pointer strings.Builder
	for _, key := range keys {
		pointer.WriteString("/" + url.PathEscape(strings.NewReplacer("~", "~0", "/", "~1").Replace(key)))
	}
	schema, err := d.schemas.Compile("openapi.json#" + pointer.String())
	if err != nil {
		return err
	}
	return schema.Validate(v)
}

// apiRequest is a documented request: an operation with its examples.
type apiRequest struct {
	method, path, query, body string
	headers                   []string
}

func (r apiRequest) url() string {
	if r.query == "" {
		return r.path
	}
	return r.path + "?" + r.query
}

// example is the request that the examples of an operation make. With few, it has what is
// required alone.
func (d *described) example(path, method string, few bool) apiRequest {
	r := apiRequest{method: strings.ToUpper(method), path: path}
	operation := d.at("paths", path, method).(map[string]any)
	parameters, _ := operation["parameters"].([]any)
	query := url.Values{}
	for _, one := range parameters {
		p := one.(map[string]any)
		value := fmt.Sprint(p["example"])
		switch {
		case p["in"] == "path":
			r.path = strings.Replace(r.path, "{"+p["name"].(string)+"}", url.PathEscape(value), 1)
		case p["required"] == true || !few || p["name"] == "count": // without a count, events never end
			query.Set(p["name"].(string), value)
		}
	}
	r.query = query.Encode()
	content, _ := d.at("paths", path, method, "requestBody", "content", "application/json").(map[string]any)
	if content != nil && (!few || d.at("paths", path, method, "requestBody", "required") == true) {
		body, err := json.Marshal(content["example"])
		if err != nil {
			d.t.Fatal(err)
		}
		if err := d.valid(content["example"], "paths", path, method, "requestBody", "content", "application/json", "schema"); err != nil {
			d.t.Errorf("%s %s: the example: %v", method, path, err)
		}
		r.body, r.headers = string(body), []string{asJSON}
	}
	return r
}

// check compares an answer with the document.
func (d *described) check(what, path, method string, want int, r response) {
	d.t.Helper()
	if r.StatusCode != want {
		d.t.Errorf("%s: %d, want %d: %.300s", what, r.StatusCode, want, r.body)
		return
	}
	answers, _ := d.at("paths", path, method, "responses", strconv.Itoa(want), "content").(map[string]any)
	kind := r.Header.Get("Content-Type")
	if answers[kind] == nil {
		d.t.Errorf("%s: %d has the type %s, documented are %v", what, want, kind, slices.Collect(maps.Keys(answers)))
		return
	}
	if !strings.HasSuffix(kind, "json") {
		return // a text
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(r.body))
	if err == nil {
		err = d.valid(v, "paths", path, method, "responses", strconv.Itoa(want), "content", kind, "schema")
	}
	if err != nil {
		d.t.Errorf("%s: %v\n%.500s", what, err, r.body)
	}
}

// each calls do for every documented operation.
func (d *described) each(do func(path, method string)) {
	for path, methods := range d.at("paths").(map[string]any) {
		for method := range methods.(map[string]any) {
			do(path, method)
		}
	}
}

func TestEveryDocumentedRequestIsAnsweredAsDocumented(t *testing.T) {
	for _, full := range []bool{true, false} {
		b := newBed(t, everything(full, &apiFault{}))
		b.metrics.Site("api.example.com").Request("GET", 200, time.Millisecond)
		d := describedBy(t, b)
		n := 0
		d.each(func(path, method string) {
			for _, few := range []bool{false, true} {
				r := d.example(path, method, few)
				n++
				d.check(fmt.Sprintf("%s %s, full %v", r.method, r.url(), full), path, method, http.StatusOK, b.ask(r.method, r.url(), r.body, r.headers...))
			}
		})
		if n < 60 {
			t.Errorf("only %d requests", n)
		}
		list := `[{"url":"https://api.example.com/x"},{"url":""}]`
		d.check("a list", "/api/v1/permits", "post", http.StatusOK, b.ask(http.MethodPost, "/api/v1/permits", list, asJSON))
	}
}

// missingName is a name that nothing has.
const missingName = "none"

// provoked is the request that is answered with a status, and the error that makes it so.
func provoked(r apiRequest, path string, code int) (apiRequest, error) {
	switch code {
	case http.StatusBadRequest:
		if r.query != "" || r.method == http.MethodGet {
			r.query = "limit=%zz"
		} else {
			r.body, r.headers = `{"unknown":1}`, []string{asJSON}
		}
	case http.StatusNotFound:
		r.path = strings.NewReplacer("{site}", "%01", "{pool}", missingName, "{label}", missingName, "{id}", missingName, "{name}", missingName).Replace(path)
	case http.StatusRequestEntityTooLarge:
		r.body = strings.Repeat(" ", maxBody+1)
	case http.StatusUnsupportedMediaType:
		r.body, r.headers = "a", []string{"Content-Type: text/plain"}
	case http.StatusUnprocessableEntity, http.StatusBadGateway:
		return r, errors.New("it is broken")
	case http.StatusTooManyRequests:
		return r, &status.Denied{Reason: "wait", Title: "no room", Status: code, RetryAt: time.Now().Add(time.Minute)}
	case http.StatusServiceUnavailable:
		if path == "/api/v1/permits" {
			return r, &status.Denied{Reason: "wait", Title: "no room", Status: code}
		}
		return r, status.NotKept{Err: errors.New("the store is away")}
	}
	return r, nil
}

func TestEveryDocumentedRefusalIsAnsweredAsDocumented(t *testing.T) {
	fault := &apiFault{}
	b := newBed(t, everything(true, fault))
	guarded := newBed(t, withToken)
	bare := newBed(t, func(_ *policy.Policy, o *given) {
		o.CA = nil
		o.Ready = func() []status.Check { return []status.Check{{Name: "store"}} }
	})
	d := describedBy(t, b)
	n := 0
	d.each(func(path, method string) {
		for text := range d.at("paths", path, method, "responses").(map[string]any) {
			code, err := strconv.Atoi(text)
			if err != nil || code == http.StatusOK {
				continue
			}
			n++
			at, headers := b, []string(nil)
			r := d.example(path, method, false)
			open := !strings.HasPrefix(path, "/api/") && path != "/metrics"
			switch {
			case code == http.StatusUnauthorized:
				at = guarded
			case code == http.StatusForbidden:
				headers = []string{"Host: evil.example"}
			case open:
				at = bare
			case path == "/api/v1/events" && code == http.StatusServiceUnavailable:
				defer fillEvents(b)()
			default:
				r, fault.err = provoked(r, path, code)
			}
			answer := at.ask(r.method, r.url(), r.body, append(headers, r.headers...)...)
			fault.err = nil
			d.check(fmt.Sprintf("%s %s with %d", r.method, r.url(), code), path, method, code, answer)
		}
	})
	if n < 90 {
		t.Errorf("only %d refusals", n)
	}
}

func TestTheDocumentNeedsTheTokenAsEveryRouteDoes(t *testing.T) {
	b := newBed(t, withToken)
	if r := b.get("/api/v1/openapi.json"); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("without the token: %d", r.StatusCode)
	}
	r := b.get("/api/v1/openapi.json", "Authorization: Bearer "+token)
	var d struct {
		OpenAPI string `json:"openapi"`
		Info    struct{ Version string }
	}
	if err := json.NewDecoder(bytes.NewReader([]byte(r.body))).Decode(&d); err != nil || d.OpenAPI != "3.1.0" || d.Info.Version != "v1.2.3" || strings.Contains(r.body, token) {
		t.Errorf("%d %v %+v", r.StatusCode, err, d)
	}
}
