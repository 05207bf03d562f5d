package clients

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// inDuckDB prints what DuckDB reads of a Parquet file.
const inDuckDB = `
import { DuckDBInstance } from "@duckdb/node-api";
const db = await (await DuckDBInstance.create(":memory:")).connect();
for (const query of [
  "SELECT column_name || ' ' || column_type FROM (DESCRIBE SELECT * FROM 'scores.parquet') ORDER BY 1",
  "SELECT id || ' ' || score || ' ' || open || ' ' || CAST(epoch(\"at\") AS BIGINT) || ' ' || (who->>'$.name') || ' ' || (body->>'$.id') FROM 'scores.parquet' WHERE n > 6",
  "SELECT count(*) || ' ' || count(n) || ' ' || sum(score) FROM 'scores.parquet'",
]) console.log((await db.runAndReadAll(query)).getRows().join(", "));
`

func TestDuckDBReadsAnExport(t *testing.T) {
	t.Parallel()
	duckdb := client{command: []string{node}, needs: "@duckdb/node-api"}
	duckdb.present(t)
	modules, err := filepath.Abs("node_modules")
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `[{"id": "ä", "score": 12.5, "n": 7, "open": true, "at": "2025-01-31T10:00:00+02:00", "who": {"name": "Ada"}}, {"id": "b", "score": 0.25}]`)
	}))
	defer server.Close()
	dir := t.TempDir()
	job := `name: scores
request: ` + server.URL + `
id: id
columns: {score: {path: score, type: number}, n: {path: n, type: integer}, open: {path: open, type: boolean}, at: {path: at, type: time}, who: {path: who, type: json}}
`
	for name, text := range map[string]string{"abide.yaml": "{data: data, egress: {allow: [127.0.0.0/8]}}", "scores.yaml": job, "read.mjs": inDuckDB} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(program string, args ...string) string {
		t.Helper()
		command := exec.CommandContext(t.Context(), program, args...)
		command.Dir, command.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, quickRace}
		out, err := command.CombinedOutput()
		if err != nil {
			t.Errorf("%q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	run(abideBinary, "backfill", "scores.yaml")
	run(abideBinary, "export", "scores.yaml", "--to", "scores.parquet")
	if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	const want = `at TIMESTAMP WITH TIME ZONE, body JSON, fetched_at TIMESTAMP WITH TIME ZONE, id VARCHAR, n BIGINT, open BOOLEAN, score DOUBLE, unit VARCHAR, who JSON
ä 12.5 true 1738310400 Ada ä
2 1 12.75
`
	if got := run(node, "read.mjs"); got != want {
		t.Error(got)
	}
}
