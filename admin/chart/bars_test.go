package chart

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func count(n float64) string { return fmt.Sprintf("%.4g", n) }

// elements counts the elements of an image, and fails where it is no XML.
func elements(t interface{ Fatal(...any) }, image []byte) map[string]int {
	found := map[string]int{}
	for d := xml.NewDecoder(strings.NewReader(string(image))); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err, string(image))
		}
		if start, ok := token.(xml.StartElement); ok {
			found[start.Name.Local]++
		}
	}
}

func TestEachAmountIsABarWithItsText(t *testing.T) {
	b := Bars{
		Title: "Requests <by> client", Start: time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC), Step: time.Hour, Count: 3, Format: count,
	}
	for i, n := range []float64{1, 0, 3, 7} { // the last is after the image
		b.Add("news", b.Start.Add(time.Duration(i)*time.Hour), n)
	}
	b.Add(`<script>alert("x")</script>`, b.Start.Add(time.Hour), 2)
	image := b.SVG()
	if n := elements(t, image)["title"]; n != 3 {
		t.Errorf("%d bars with a text", n)
	}
	for _, want := range []string{"2026-03-01 14:00 UTC, news: 3", "&lt;script&gt;", "Requests &lt;by&gt; client", ">13:00<"} {
		if !strings.Contains(string(image), want) {
			t.Errorf("no %s in %s", want, image)
		}
	}
	if strings.Contains(string(image), "<script") {
		t.Error("a name is an element")
	}
}

func TestSeriesWithoutAColourAreOne(t *testing.T) {
	b := Bars{Step: time.Minute, Count: 1, Format: count}
	for i := range 50 {
		b.Add(fmt.Sprint("s", i), b.Start, 1)
	}
	image := string(b.SVG())
	if n := elements(t, []byte(image))["title"]; n != len(colours) || !strings.Contains(image, "other: 43") {
		t.Errorf("%d: %s", n, image)
	}
}

func TestAnImageIsAlwaysXML(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := Bars{Title: rapid.String().Draw(t, "title"), Step: time.Minute, Count: rapid.IntRange(0, 50).Draw(t, "steps"), Format: count}
		for range rapid.IntRange(0, 20).Draw(t, "series") {
			name := rapid.String().Draw(t, "name")
			for step, amount := range rapid.SliceOfN(rapid.Float64Range(-1, 1e12), 0, 60).Draw(t, "amounts") {
				b.Add(name, b.Start.Add(time.Duration(step)*b.Step), amount)
			}
		}
		image := b.SVG()
		if elements(t, image); strings.Contains(string(image), "NaN") || strings.Contains(string(image), "Inf") {
			t.Fatal(string(image))
		}
	})
}
