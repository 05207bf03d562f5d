package backfill

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/internal/redact"
	"github.com/abide-proxy/abide/internal/shorten"
	"github.com/abide-proxy/abide/jobs/output"
	"github.com/abide-proxy/abide/jobs/paginate"
	"github.com/abide-proxy/abide/jobs/records"
	"github.com/abide-proxy/abide/jobs/send"
	"github.com/abide-proxy/abide/policy/jobfile"
	"github.com/abide-proxy/abide/proxy/dispatch"
	"github.com/abide-proxy/abide/status"
)

// Try asks for the first page of the first unit, and stores nothing. It writes to w the request without the
// values of its headers, the answer, what the job makes of it, and keys that it lacks. The error says why the page
// is no good one. With drafts these keys are the job's before the answer is judged, and Try returns them, unless there are
// no records.
func (b *Backfill) Try(ctx context.Context, w io.Writer, drafts bool) (*jobfile.Draft, error) {
	job := *b.options.Job
	b.options.Job = &job
	b.learned.Begins(1) // page 0 may be none
	c, err := &output.Claim{}, errors.New("the job has no units")
	for c.Unit, err = range b.options.Units {
		break
	}
	t := &try{to: w}
	begin := func() {
		if b.extractor, err = records.New(&job); err == nil {
			t.walk, err = b.walk(c)
		}
	}
	if err == nil {
		begin()
	}
	if err != nil {
		return nil, err
	}
	a, f, err := t.ask(ctx, b)
	defer a.Release()
	if err != nil {
		return nil, err
	}
	if rule, _ := b.ruleOf(a, f); rule.Then != "" {
		t.say("\nerrors says: %s\n", rule.Then)
		return nil, nil
	}
	keys, err := t.propose(&job, a)
	switch {
	case err != nil && drafts:
		return nil, err
	case err != nil:
		t.say("%v\n", err)
	case drafts:
		job.Paginate, job.Records, job.ID, job.Columns = keys.Paginate, keys.Records, keys.ID, keys.Columns
		if begin(); err != nil {
			return nil, err
		}
	}
	if err = t.judge(&job, a, f); errors.As(err, &f) && drafts {
		keys = nil
	} else if text := keys.Text(); !drafts && text != "" {
		t.say("\nfrom this answer abide proposes\n%s", text)
	}
	if err == nil {
		return keys, nil
	}
	text := t.hide(err.Error())
	if f != nil && f.Status == http.StatusUnauthorized {
		text += ": it needs a credential, by a header of the request or a pool of the configuration (docs/tokens.md)"
	}
	return keys, errors.New(text)
}

// try is a request for a page, and what it shows.
type try struct {
	to      io.Writer
	walk    *walk
	secrets []*redact.Finder
}

// mostLeaves bounds the paths of a record that are shown.
const mostLeaves = 30

// emptyColumns says which columns of a job none of some records has, and what the first record has; "" for none.
func emptyColumns(job *jobfile.Job, list []output.Record) (missing, there string) {
	var empty []string
	for i, c := range job.Columns { // those of units and parents are not in the record
		has := func(r output.Record) bool {
			_, has := records.Elements(r.Body, c.Path)
			return has || r.Columns[i] != nil
		}
		if len(list) > 0 && !slices.ContainsFunc(list, has) {
			empty = append(empty, fmt.Sprintf("%q, the path of the column %s", c.Path, c.Name))
		}
	}
	if len(empty) == 0 {
		return "", ""
	}
	return "no record has " + strings.Join(empty, ", nor "), "the first has " + strings.Join(records.Value(list[0].Body).Leaves(mostLeaves), ", ")
}

// mostShown bounds the begin of an answer in which credentials are looked for, and a credential.
const mostShown = 16 << 10

// hide is a text without the credentials of the request.
func (t *try) hide(text string) string {
	for _, f := range t.secrets {
		text, _ = f.Text(text, "(hidden)")
	}
	return text
}

// say writes to the person who tries the job.
func (t *try) say(format string, args ...any) { fmt.Fprint(t.to, t.hide(fmt.Sprintf(format, args...))) }

// begins is the begin of a body.
func (t *try) begins(body string) string {
	return shorten.To(mostOfAnswer, status.Line(t.hide(body[:min(len(body), mostShown)])))
}

// ask shows the request, sends it, and shows the answer.
func (t *try) ask(ctx context.Context, b *Backfill) (*send.Answer, *send.Failure, error) {
	r, err := t.walk.request()
	if err != nil {
		return nil, nil, err
	}
	t.secrets = []*redact.Finder{redact.New(dispatch.CredentialsOf(r, mostShown)...)}
	t.say("%s %s\n", r.Method, r.URL)
	for _, h := range b.options.Job.Request.Headers {
		t.say("%s: (hidden)\n", h.Name)
	}
	t.say("%s\n", t.begins(string(t.walk.pages.Body())))
	a, f, err := b.ask(ctx, t.walk)
	if f != nil {
		t.say("%s\n%s\n", f.Text, t.begins(f.Body))
		f.Text = t.hide(f.Text)
	} else if err == nil {
		t.secrets = append(t.secrets, a.Token)
		t.say("%d, %d bytes: %s\n", a.Status, len(a.Body), t.begins(string(a.Body)))
	}
	return a, f, err
}

// propose returns the keys that a job lacks, or that lead nowhere, as the answer shows them. It has none, and judge says
// why, where there is no answer that can be read. The error says that there are no records.
func (t *try) propose(job *jobfile.Job, a *send.Answer) (*jobfile.Draft, error) {
	keys := &jobfile.Draft{}
	if a == nil {
		return keys, nil
	}
	body, err := read(a)
	if err != nil {
		return keys, nil
	}
	all := records.Lists(body)
	taken := "list: %s\n"
	if len(all) != 1 {
		taken = "lists: %s; the longest is taken unless records names another\n"
	}
	t.say("\n"+taken, cmp.Or(strings.Join(lists.Map(all, func(l records.List) string {
		return strconv.Quote(cmp.Or(l.Path, "the answer itself")) + " with " + status.Number(len(l.Elements), "element", "elements")
	}), ", "), "none"))
	list, given := records.Elements(body, job.Records)
	if len(all) > 0 && all[0].Path != "" && (job.Records == "" || !given) {
		keys.Records, list = all[0].Path, all[0].Elements
	}
	if len(list) == 0 {
		return keys, errors.New("there are no records, so nothing can be proposed: ask for something that has some now")
	}
	if slices.ContainsFunc(job.ID, func(path string) bool {
		_, has := records.Elements(list[0], path)
		return !has && !jobfile.OfParent(path) && !jobfile.HasPlaceholder(path)
	}) || len(job.ID) == 0 {
		keys.ID = records.ProposeID(list)
	}
	if len(job.Columns) == 0 {
		keys.Columns = records.ProposeColumns(list, slices.Concat(job.ID, keys.ID))
	}
	if c, first, has := records.ProposeSince(list); has && job.Since == nil && job.Range == nil {
		from := `"2020-01-01", lag: 1h`
		if first.Number() {
			from = "0"
		}
		t.say("%q says when a record changed last: if the server can be asked for what has changed since a time, put {since} into the URL, keep %s among the columns, and add\n    since: {column: %s, from: %s}\n", c.Path, c.Path, c.Name, from)
	}
	if job.Paginate.Style == jobfile.NoPages || job.Paginate.Style == jobfile.AutoPages {
		var how string
		given := jobfile.Pagination{Size: job.Paginate.Size, SizeParam: job.Paginate.SizeParam}
		if job.Request.Body != "" {
			given.In = jobfile.InBody
		}
		keys.Paginate, how = paginate.Recognise(given, t.walk.first.URL, paginate.Page{URL: t.walk.pages.Next(), Header: a.Header, Body: body, Records: len(list)})
		t.say("%s\n", how)
		if keys.Paginate.Style == jobfile.LinkPages {
			keys.Paginate.More, keys.Paginate.Total = "", ""
		} else if keys.Paginate.Style == jobfile.NoPages {
			keys.Paginate = jobfile.Pagination{}
		}
	}
	return keys, nil
}

// judge shows what a job makes of an answer. The error says why it is no good one, or what is wrong with the job.
func (t *try) judge(job *jobfile.Job, a *send.Answer, f *send.Failure) error {
	next, err := t.walk.move(a, f)
	list := next.page.Records
	if next.page.Ends == output.Incomplete {
		err = errors.New("the unit would be incomplete: " + next.page.Reason)
	}
	ids := map[string]bool{}
	for _, r := range list {
		if ids[r.ID] = true; r.Rejected != "" && err == nil {
			err = errors.New(r.Rejected)
		}
	}
	if len(list) > 0 {
		t.say("the first record is %s\n", t.begins(string(list[0].Body)))
	}
	if missing, there := emptyColumns(job, list); err == nil && missing != "" {
		err = fmt.Errorf("%s; %s", missing, there)
	}
	if err == nil && len(job.ID) > 0 && len(ids) < len(list) {
		err = fmt.Errorf("%d records have %s, and a record takes the place of the one with its ID: write as \"id\" what identifies each", len(list), status.Number(len(ids), "ID", "different IDs"))
	}
	if err != nil {
		return err
	}
	follows := "no page follows"
	if u := t.walk.pages.Next(); u != nil {
		follows = "the next page is " + u.RequestURI()
		if body := t.walk.pages.Body(); !bytes.Equal(body, t.walk.first.Body) {
			follows += " with " + t.begins(string(body))
		}
	}
	if next.page.Ends == output.NotOver {
		follows += "; " + next.page.Reason
	}
	if text := job.Doubles(false, time.Now()); text != "" {
		t.say("%s\n", text)
	}
	t.say("the job finds %s, and %s\n", status.Number(len(list), "record", "records"), follows)
	return nil
}
