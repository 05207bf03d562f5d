package paginate

import (
	"fmt"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/abide-proxy/abide/jobs/jobstest"
	"github.com/abide-proxy/abide/jobs/records"
	"github.com/abide-proxy/abide/policy/jobfile"
)

// read walks through a unit of an origin as a job does. Before some pages the walk is restored
// from its checkpoint. It returns how the walk ends and how often each ID came.
func read(t interface{ Fatal(...any) }, o *jobstest.Origin, p jobfile.Pagination, query string, restored func() bool) (Step, map[string]int) {
	first, err := url.Parse("http://api.test" + o.Path("u") + query)
	if err != nil {
		t.Fatal(err)
	}
	x, err := records.New(&jobfile.Job{Records: "data", ID: []string{"id"}})
	if err != nil {
		t.Fatal(err)
	}
	w, err := New(p, first, nil, nil, &Learned{})
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]int{}
	for range 10_000 {
		if restored() {
			if w, err = New(p, first, nil, w.Checkpoint(time.Time{}), &Learned{}); err != nil {
				t.Fatal(err)
			}
		}
		u := w.Next()
		if u.Host != "api.test" {
			t.Fatal("the walk leaves its origin for ", u.String())
		}
		answer := httptest.NewRecorder()
		o.ServeHTTP(answer, httptest.NewRequest("GET", u.String(), nil))
		body, err := records.Read(answer.Header().Get("Content-Type"), answer.Body.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		list, err := x.Records(body, w.Pages()+1, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list {
			ids[r.ID]++
		}
		step, err := w.Answer(Page{URL: u, Header: answer.Header(), Body: body, Records: len(list), Digest: records.Digest(list)})
		if err != nil {
			t.Fatal(err)
		}
		if len(w.Checkpoint(time.Time{})) > 2000 {
			t.Fatal("the checkpoint is long: ", string(w.Checkpoint(time.Time{})))
		}
		if step.State != Going {
			return step, ids
		}
	}
	t.Fatal("the walk does not end")
	return Step{}, nil
}

var styles = []string{jobfile.OffsetPages, jobfile.PagePages, jobfile.CursorPages, jobfile.LinkPages, jobfile.NextPages}

func TestEachStyleReadsEachRecordOnceThoughItIsRestored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		options := jobstest.Options{
			Style: rapid.SampledFrom(styles).Draw(t, "style"), Records: rapid.IntRange(0, 60).Draw(t, "records"),
			Size: rapid.IntRange(1, 20).Draw(t, "size"), Total: rapid.Bool().Draw(t, "total"),
			End: rapid.SampledFrom([]jobstest.End{jobstest.Honest, jobstest.Honest, jobstest.EmptyMiddle, jobstest.TotalTooLow}).Draw(t, "end"),
		}
		if options.Style == jobfile.CursorPages && rapid.Bool().Draw(t, "in a header") {
			options.Header = "X-Next"
		}
		o := jobstest.New(options)
		p, query := o.Pagination(), ""
		if p.Size > 0 {
			switch rapid.IntRange(0, 2).Draw(t, "size is") {
			case 0: // unknown
				if options.End == jobstest.TotalTooLow {
					break // a first page with all of the total is the only one
				}
				p.Size, p.SizeParam = 0, ""
				if p.More != "" && p.Style == jobfile.OffsetPages {
					p.Size = options.Size
				}
			case 1: // more than the server allows, which has a usual maximum
				if options.End != jobstest.TotalTooLow && (options.Size%10 == 0 || p.Total != "") {
					p.Size += rapid.IntRange(1, 50).Draw(t, "above")
				}
			}
		}
		if options.End != jobstest.TotalTooLow && options.Header == "" && rapid.Bool().Draw(t, "auto") {
			p = jobfile.Pagination{Style: jobfile.AutoPages}
			switch options.Style {
			case jobfile.OffsetPages:
				query = fmt.Sprintf("&offset=0&limit=%d", options.Size)
			case jobfile.PagePages:
				query = fmt.Sprintf("&page=1&limit=%d", options.Size)
			}
		}
		step, ids := read(t, o, p, query, func() bool { return rapid.Bool().Draw(t, "restored") })
		if step.State != Complete {
			t.Fatalf("the walk is %s: %s", step.State, step.Reason)
		}
		for _, id := range o.IDs("u") {
			if ids[id] != 1 {
				t.Fatalf("%s came %d times; the walk is %s: %s", id, ids[id], step.State, step.Reason)
			}
		}
		if len(ids) != options.Records {
			t.Fatalf("%d records came, and not %d", len(ids), options.Records)
		}
	})
}

func TestAWalkThatWasCutShortIsNeverComplete(t *testing.T) {
	for _, style := range styles {
		for _, end := range []jobstest.End{jobstest.Repeats, jobstest.OtherHost, jobstest.TotalTooHigh, jobstest.Shrinks} {
			byURL := style == jobfile.LinkPages || style == jobfile.NextPages
			counted := style == jobfile.OffsetPages || style == jobfile.PagePages
			if end == jobstest.OtherHost && !byURL || end == jobstest.Shrinks && !counted {
				continue
			}
			for _, restored := range []bool{false, true} {
				o := jobstest.New(jobstest.Options{Style: style, Records: 95, Size: 10, End: end, Total: true, Elsewhere: "http://elsewhere.test"})
				step, ids := read(t, o, o.Pagination(), "", func() bool { return restored })
				if step.State != Incomplete || step.Reason == "" || strings.Contains(step.Reason, "%!") {
					t.Errorf("%s, %s: the walk is %s: %s", style, end, step.State, step.Reason)
				}
				if end == jobstest.TotalTooHigh && len(ids) != 95 {
					t.Errorf("%s: %d records came", style, len(ids))
				}
			}
		}
	}
}
