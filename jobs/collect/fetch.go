package collect

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/internal/shorten"
	"github.com/abide-proxy/abide/jobs/output"
	"github.com/abide-proxy/abide/jobs/records"
	"github.com/abide-proxy/abide/jobs/send"
	"github.com/abide-proxy/abide/jobs/units"
	"github.com/abide-proxy/abide/policy/jobfile"
)

// targetsOf makes the targets of a job: an item each, or a batch of items each.
func targetsOf(job *jobfile.Job, all iter.Seq2[output.Unit, error]) ([]*target, error) {
	var list []*target
	var items []output.Unit
	seen := map[string]bool{}
	for u, err := range all {
		if err != nil {
			return nil, err
		}
		if !seen[u.Key] {
			seen[u.Key] = true
			items = append(items, u)
		}
	}
	batch := job.Collect.Batch
	for part := range slices.Chunk(items, max(batch.Size, 1)) {
		first := part[0]
		t := &target{key: first.Key, unit: first, priority: priorityOf(job, first.Key), items: lists.Map(part, func(u output.Unit) string { return u.Key })}
		if batch.Param != "" {
			t.key = "batch " + shorten.Hash(8, strings.Join(t.items, "\x00"))
		}
		filled, err := units.Fill(job, first)
		if err != nil {
			return nil, err
		}
		t.host = filled.URL.Host
		list = append(list, t)
	}
	return list, nil
}

// priorityOf is the priority of an item: that of the first pattern that matches, or the job's.
func priorityOf(job *jobfile.Job, item string) int {
	for _, p := range job.Collect.Priority {
		if ok, _ := path.Match(p.Items, item); ok || p.Items == "*" {
			return p.Priority
		}
	}
	return job.Request.Priority
}

// request is the request for a target, as it is sent.
func request(job *jobfile.Job, t *target, known output.Target) (filled *units.Request, r *http.Request, err error) {
	if filled, err = units.Fill(job, t.unit); err != nil {
		return nil, nil, err
	}
	if b := job.Collect.Batch; b.Param != "" {
		q, err := url.ParseQuery(filled.URL.RawQuery)
		if err != nil {
			return nil, nil, err
		}
		q.Set(b.Param, strings.Join(t.items, b.Join))
		filled.URL.RawQuery = q.Encode()
	}
	r, err = filled.HTTP(filled.URL, filled.Body, known.ETag, known.LastModified)
	return filled, r, err
}

// fetch asks a target. It returns what is to be remembered of the target, and the records that
// are to be stored, with the answer that they are parts of.
func (c *Collector) fetch(ctx context.Context, t *target, known output.Target) (output.Target, []output.Record, *send.Answer, error) {
	job, began := c.options.Job, time.Now()
	known.Key, known.Asked = t.key, began
	filled, r, err := request(job, t, known)
	if err != nil {
		return known, nil, nil, err
	}
	resp, err := c.options.Sender.Send(ctx, r, send.Options{Priority: t.priority, Client: job.Name, Wait: job.Collect.Every})
	a, err := c.memory.Read(resp, err, time.Now())
	if err != nil || a.Status == http.StatusNotModified {
		return known, nil, a, err
	}
	body, err := records.Read(a.Header.Get("Content-Type"), a.Body)
	if err != nil {
		return known, nil, a, err
	}
	list, err := c.extractor.Records(body, 1, filled.Parts)
	if err != nil {
		return known, nil, a, err
	}
	if left := leftOut(t.items, list); left != t.left {
		if t.left = left; left != "" {
			c.options.Warn("the answer about %d items leaves out %s", len(t.items), shorten.To(300, left))
		}
	}
	before, now := digests(known.Hash), map[digest]digest{}
	fresh := list[:0]
	for i := range list {
		record := &list[i]
		record.Unit, record.Fetched = t.key, output.Precise(began)
		filled.Complete(record)
		id, sum := digestOf([]byte(record.ID)), digestOf(record.Body)
		now[id] = sum
		if was, ok := before[id]; job.Collect.All || !ok || was != sum {
			fresh = append(fresh, *record)
		}
	}
	known.ETag, known.LastModified, known.Hash = a.Header.Get("ETag"), a.Header.Get("Last-Modified"), digestText(now)
	return known, fresh, a, nil
}

// leftOut lists the items of a batch that no record has as its ID, or counts them where IDs are
// something else.
func leftOut(items []string, list []output.Record) string {
	ids := map[string]bool{}
	for _, r := range list {
		ids[r.ID] = true
	}
	missing := slices.DeleteFunc(slices.Clone(items), func(item string) bool { return ids[item] })
	switch n := len(items) - len(list); {
	case len(missing) < len(items):
		return strings.Join(missing, ", ")
	case len(items) > 1 && n > 0:
		return strconv.Itoa(n) + " of them"
	}
	return ""
}

// digest is a short hash.
type digest [8]byte

func digestOf(data []byte) digest {
	sum := sha256.Sum256(data)
	return digest(sum[:8])
}

// digests reads which record of the last answer had which body.
func digests(text string) map[digest]digest {
	data, _ := base64.StdEncoding.DecodeString(text) // what cannot be read is not known
	all := make(map[digest]digest, len(data)/16)
	for ; len(data) >= 16; data = data[16:] {
		all[digest(data[:8])] = digest(data[8:16])
	}
	return all
}

// digestText writes a map as the text that digests reads.
func digestText(all map[digest]digest) string {
	data := make([]byte, 0, 16*len(all))
	for id, body := range all {
		data = append(append(data, id[:]...), body[:]...)
	}
	return base64.StdEncoding.EncodeToString(data)
}

// union joins the hashes of all targets to one text: of each record, the digest of the answer
// that was asked last.
func union(targets map[string]output.Target) string {
	all := map[digest]digest{}
	for _, t := range slices.SortedFunc(maps.Values(targets), func(a, b output.Target) int { return a.Asked.Compare(b.Asked) }) {
		maps.Copy(all, digests(t.Hash))
	}
	return digestText(all)
}
