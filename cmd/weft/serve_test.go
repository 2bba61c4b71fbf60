package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"weft/graph/generate"
	"weft/internal/assert"
	"weft/internal/require"
)

// served starts serve, and returns its address and what ends it by a signal, which returns its last words.
func served(t *testing.T, args ...string) (url string, end func() string) {
	t.Helper()
	return listens(t, exec.Command("weft", append([]string{"serve", "--port", "0"}, args...)...))
}

// listens is served by a command.
func listens(t *testing.T, c *exec.Cmd) (url string, end func() string) {
	t.Helper()
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	require.NoError(t, err)
	lines := bufio.NewScanner(out)
	require.Equal(t, true, lines.Scan())
	url, _, _ = strings.Cut(lines.Text(), " ")
	return url, func() string {
		require.NoError(t, c.Process.Signal(syscall.SIGTERM))
		var rest bytes.Buffer
		for lines.Scan() {
			rest.WriteString(lines.Text())
		}
		assert.NoError(t, c.Wait())
		return rest.String()
	}
}

// weft runs the command.
func weft(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.Command("weft", args...).CombinedOutput()
	require.NoError(t, err, string(out))
}

// rowsOf are the rows of a table of predictions behind its header.
func rowsOf(t *testing.T, table string) []string {
	t.Helper()
	written, err := os.ReadFile(table)
	require.NoError(t, err)
	return strings.Split(strings.TrimSpace(string(written)), "\n")[1:]
}

// asked posts a body, and returns the status and the vertices, classes and probabilities of the answer, each
// as predict writes them.
func asked(url, body string) (status int, rows []string, err error) {
	r, err := http.Post(url+"/predict", "application/json", strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	defer r.Body.Close()
	var answer struct {
		Predictions []struct {
			Vertex, Class any
			Probability   json.Number
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&answer); err != nil {
		return 0, nil, err
	}
	for _, p := range answer.Predictions {
		rows = append(rows, fmt.Sprintf("%v,%v,%s", p.Vertex, p.Class, p.Probability))
	}
	return r.StatusCode, rows, nil
}

// TestServeWithFewFiles: where serve may open few files, idle clients, more than these, keep nobody out, and
// nothing is said of them.
func TestServeWithFewFiles(t *testing.T) {
	dir := t.TempDir()
	store, run := filepath.Join(dir, "g"), filepath.Join(dir, "run")
	require.NoError(t, generate.Write(store, generate.Options{
		Kind: generate.SBM, Vertices: 60, Degree: 3, Features: 4, Classes: 2,
	}))
	weft(t, "train", store, "--epochs", "1", "--out", run)
	var stderr bytes.Buffer
	c := exec.Command("sh", "-c", `ulimit -n 128; exec "$0" "$@"`, "weft", "serve", run, "--port", "0")
	c.Stderr = &stderr
	url, end := listens(t, c)
	for range 130 {
		idle, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		require.NoError(t, err)
		defer idle.Close()
	}
	status, _, err := asked(url, `{"vertices": [1]}`)
	require.NoError(t, err)
	assert.Equal(t, 200, status)
	assert.Contains(t, end(), "1 request answered in ")
	assert.Equal(t, "weft: terminated: stopping; interrupt again to stop at once\n", stderr.String())
}

// TestServe: serve answers what predict writes, and a signal ends it with status 0.
func TestServe(t *testing.T) {
	dir := t.TempDir()
	store, run, table := filepath.Join(dir, "g"), filepath.Join(dir, "run"), filepath.Join(dir, "preds.csv")
	require.NoError(t, generate.Write(store, generate.Options{
		Kind: generate.SBM, Vertices: 60, Degree: 3, Features: 4, Classes: 2,
	}))
	weft(t, "train", store, "--epochs", "2", "--out", run)
	weft(t, "predict", run, "--out", table)
	rows := rowsOf(t, table)
	url, end := served(t, run, "--threads", "1")
	_, got, err := asked(url, `{"vertices": [59, 0, 17]}`)
	require.NoError(t, err)
	assert.Equal(t, []string{rows[59], rows[0], rows[17]}, got)
	assert.Contains(t, end(), "1 request answered in ")
}

// tableFiles returns the path of a name in a new folder, and what writes a table of text there.
func tableFiles(t *testing.T) (path func(name string) string,
	file func(name, header string, rows ...string) string,
) {
	t.Helper()
	dir := t.TempDir()
	path = func(name string) string { return filepath.Join(dir, name) }
	return path, func(name, header string, rows ...string) string {
		text := header + "\n" + strings.Join(rows, "\n") + "\n"
		require.NoError(t, os.WriteFile(path(name), []byte(text), 0o666))
		return path(name)
	}
}

// TestServeAdditions: under a load of vertices, of new vertices of two types and of what is no request, each
// answer is what predict writes for all vertices, or with the same addition from tables.
func TestServeAdditions(t *testing.T) {
	path, file := tableFiles(t)
	const persons, shops = 40, 7
	var people, at, bought, sold []string
	for i := range persons {
		city := []string{"Rome", "Paris", ""}[i%3]
		people = append(people, fmt.Sprintf("p%d,%s,%d,%c", i, city, 20+i*i%50, 'x'+i%2))
		bought = append(bought, fmt.Sprintf("p%d,s%d", i, i*i%shops))
		sold = append(sold, fmt.Sprintf("s%d,p%d", i%shops, (i*3+1)%persons))
	}
	for i := range shops {
		at = append(at, fmt.Sprintf("s%d,%d", i, i*10))
	}
	weft(t, "import", "edges", "buys="+file("buys.csv", "p,s", bought...),
		"sells="+file("sells.csv", "s,p", sold...), path("g"),
		"--vertices-from", "person="+file("person.csv", "id,city,age,kind", people...),
		"--vertices-from", "shop="+file("shop.csv", "id,size", at...), "--label", "kind",
		"--source", "person:p", "--source", "shop:s", "--target", "shop:s", "--target", "person:p",
		"--split", "random:60/20/20")
	weft(t, "train", path("g"), "--model", "rgcn", "--epochs", "2", "--out", path("run"))
	weft(t, "predict", path("run"), "--out", path("all.csv"))
	weft(t, "predict", path("run"), "--out", path("new.csv"),
		"--add-vertices", "person="+file("more.csv", "age,id,city", "33,n0,Oslo", ",n1,Rome"),
		"--add-vertices", "shop="+file("shops.csv", "size,id", "5,t0"),
		"--add-edges", "buys="+file("buys2.csv", "p,s", "n0,t0", "n1,s3"),
		"--add-edges", "sells="+file("sells2.csv", "s,p", "t0,n0", "s1,n0", "s2,n1"),
		"--source", "person:p", "--source", "shop:s", "--target", "shop:s", "--target", "person:p")
	const added = `{"new": [
		{"id": "n0", "columns": {"age": 33, "city": "Oslo"}, "edges": {"out": ["t0"], "in": ["t0", "s1"]}},
		{"id": "n1", "columns": {"age": null, "city": "Rome"}, "edges": {"out": ["s3"], "in": ["s2"]}},
		{"id": "t0", "type": "shop", "columns": {"size": 5}}]}`
	named := func(table string) (rows []string) {
		for _, row := range rowsOf(t, path(table)) {
			_, row, _ = strings.Cut(row, ",") // the vertex's number
			rows = append(rows, row)
		}
		return rows
	}
	all, more := named("all.csv"), named("new.csv")
	require.Len(t, more, 2)
	url, end := served(t, path("run"), "--threads", "2")
	const clients, each = 8, 30
	var done sync.WaitGroup
	for c := range clients {
		done.Go(func() {
			for k := range each {
				v, w := (c*each+k)%persons, (c+7*k)%persons
				body, status, want := fmt.Sprintf(`{"vertices": ["p%d", "p%d"]}`, v, w), 200,
					[]string{all[v], all[w]}
				switch k % 3 {
				case 1:
					body, want = added, more
				case 2:
					body, status, want = body[:len(body)*k/each], 400, nil
				}
				got, rows, err := asked(url, body)
				assert.NoError(t, err)
				assert.Equal(t, status, got, body)
				assert.Equal(t, want, rows, body)
			}
		})
	}
	done.Wait()
	assert.Contains(t, end(), "240 requests answered in ")
}

// TestServeEdges: of a run that has learned labels of edges, new edges have the scores that predict writes
// for a list of them, with its threshold and calibration, also those of new vertices, and edges of the store
// their own.
func TestServeEdges(t *testing.T) {
	path, file := tableFiles(t)
	var people, pay []string
	for i := range 20 {
		people = append(people, fmt.Sprintf("c%d,%d,%s", i, 20+i*i%50, []string{"Rome", "Paris"}[i%2]))
	}
	for i := range 80 {
		amount := i * 37 % 101
		pay = append(pay, fmt.Sprintf("c%d,c%d,%d.25,2024-%02d-11,%s", i*i%20, i*7%20, amount, 1+i%12,
			[]string{"no", "yes"}[(amount+i%30)/66]))
	}
	weft(t, "import", "edges", file("pay.csv", "payer,payee,amount,day,fraud", pay...), path("g"),
		"--vertices-from", file("people.csv", "id,age,city", people...), "--source", "payer",
		"--target", "payee", "--edge-label", "fraud", "--split", "random:60/20/20")
	weft(t, "train", path("g"), "--edge-label", "fraud", "--hidden", "8", "--epochs", "20",
		"--calibrate", "temperature", "--out", path("run"))
	next := file("next.csv", "amount,payee,day,payer", "12.5,c7,2024-03-09,c1",
		"99,c1,2024-12-24T12:00:00Z,c1")
	more := file("more.csv", "amount,payee,day,payer", "75,c3,2024-01-02,n0", "3,n0,2024-01-02,n1")
	named := file("named.csv", "id,city,age", "n0,Rome,", "n1,Oslo,31")
	names := []string{"--columns", "class,probability", "--threshold", "best"}
	weft(t, append([]string{"predict", path("run"), "--out", path("all.csv")}, names...)...)
	names = append(names, "--sort", "row", "--add-edges", next)
	weft(t, append([]string{"predict", path("run"), "--out", path("new.csv")}, names...)...)
	names[len(names)-1] = more
	names = append(names, "--add-vertices", named)
	weft(t, append([]string{"predict", path("run"), "--out", path("far.csv")}, names...)...)
	url, end := served(t, path("run"), "--threads", "2", "--threshold", "best")
	post := func(body string) (rows []string) {
		t.Helper()
		r, err := http.Post(url+"/predict", "application/json", strings.NewReader(body))
		require.NoError(t, err)
		defer r.Body.Close()
		var answer struct {
			Error       string
			Predictions []struct {
				Edge, Probability   json.Number
				Payer, Payee, Class string
			}
		}
		require.NoError(t, json.NewDecoder(r.Body).Decode(&answer))
		assert.Equal(t, "", answer.Error)
		for k, p := range answer.Predictions {
			number := p.Edge.String()
			if number == "" {
				number = fmt.Sprint(k)
			}
			row := []string{number, p.Payer, p.Payee, p.Class, p.Probability.String()}
			rows = append(rows, strings.Join(row, ","))
		}
		return rows
	}
	all := rowsOf(t, path("all.csv"))
	assert.Equal(t, []string{all[79], all[0], all[17]},
		post(`{"edges": [79, 0, "17"], "columns": ["class", "probability"]}`))
	assert.Equal(t, rowsOf(t, path("new.csv")), post(`{"columns": ["class", "probability"], "edges": [
		{"payer": "c1", "payee": "c7", "amount": 12.5, "day": "2024-03-09"},
		{"payer": "c1", "payee": "c1", "amount": 99, "day": "2024-12-24T12:00:00Z", "fraud": null}]}`))
	assert.Equal(t, rowsOf(t, path("far.csv")), post(`{"columns": ["class", "probability"], "edges": [
		{"payer": "n0", "payee": "c3", "amount": 75, "day": "2024-01-02"},
		{"payer": "n1", "payee": "n0", "amount": 3, "day": "2024-01-02"}], "new": [
		{"id": "n0", "columns": {"city": "Rome", "age": null}},
		{"id": "n1", "columns": {"city": "Oslo", "age": 31}}]}`))
	assert.Contains(t, end(), "3 requests answered in ")

	// Where the run was asked for it, new edges pass messages: their scores are those in the store of all.
	weft(t, "train", path("g"), "--edge-label", "fraud", "--hidden", "8", "--epochs", "20",
		"--pass-messages", "all", "--out", path("passing"))
	weft(t, "append", path("g"), "--add-edges", next, "--out", path("longer"))
	names = []string{"--columns", "class,probability"}
	weft(t, append([]string{"predict", path("passing"), path("longer"), "--out", path("longer.csv")},
		names...)...)
	names = append(names, "--sort", "row", "--add-edges", next)
	weft(t, append([]string{"predict", path("passing"), "--out", path("passing.csv")}, names...)...)
	passing := rowsOf(t, path("passing.csv"))
	var longer []string
	for _, row := range rowsOf(t, path("longer.csv")) {
		longer = append(longer, row[strings.Index(row, ","):])
	}
	for _, row := range passing {
		assert.Contains(t, strings.Join(longer, "\n"), row[strings.Index(row, ","):])
	}
	url, end = served(t, path("passing"))
	assert.Equal(t, passing, post(`{"columns": ["class", "probability"], "edges": [
		{"payer": "c1", "payee": "c7", "amount": 12.5, "day": "2024-03-09"},
		{"payer": "c1", "payee": "c1", "amount": 99, "day": "2024-12-24T12:00:00Z"}]}`))
	end()

	// With a split by time those of the store have the scores of the graph of the periods before. They have
	// none in a store that is not divided so.
	dates := []string{"--vertices-from", path("people.csv"), "--split", "time:day=2024-08-01,2024-10-01"}
	weft(t, append([]string{"import", "edges", path("pay.csv"), path("dated"), "--columns-of", path("run")},
		dates...)...)
	weft(t, "train", path("dated"), "--edge-label", "fraud", "--epochs", "2", "--out", path("earlier"))
	weft(t, "predict", path("earlier"), "--columns", "class,probability", "--out", path("earlier.csv"))
	url, end = served(t, path("earlier"))
	all = rowsOf(t, path("earlier.csv"))
	var numbers []string
	for k := range all {
		numbers = append(numbers, strconv.Itoa(k))
	}
	assert.Equal(t, all, post(`{"edges": [`+strings.Join(numbers, ",")+`], "columns": ["class", "probability"]}`))
	end()
	url, end = served(t, path("earlier"), path("g"))
	r, err := http.Post(url+"/predict", "application/json", strings.NewReader(`{"edges": [0]}`))
	require.NoError(t, err)
	text, err := io.ReadAll(r.Body)
	require.NoError(t, errors.Join(err, r.Body.Close()))
	assert.Equal(t, 400, r.StatusCode)
	assert.Contains(t, string(text), "edge 1: the store's own edges passed messages to later ones alone in the run")
	end()
	// A run with another split has them in a store that is divided by time, too.
	weft(t, "predict", path("run"), path("dated"), "--columns", "class,probability", "--threshold", "best",
		"--out", path("dated.csv"))
	url, end = served(t, path("run"), path("dated"), "--threshold", "best")
	all = rowsOf(t, path("dated.csv"))
	assert.Equal(t, []string{all[79], all[0]}, post(`{"edges": [79, 0], "columns": ["class", "probability"]}`))
	end()

	// The date that divides the edges is none of their features: a new edge needs none, and one changes
	// nothing.
	weft(t, append([]string{
		"train", path("pay.csv"), "--source", "payer", "--target", "payee",
		"--edge-label", "fraud", "--epochs", "2", "--out", path("undated"),
	}, dates...)...)
	weft(t, "predict", path("undated"), "--columns", "class,probability", "--sort", "row",
		"--out", path("undated.csv"),
		"--add-edges", file("undated-next.csv", "amount,payee,payer", "12.5,c7,c1", "99,c1,c1"))
	url, end = served(t, path("undated"))
	assert.Equal(t, rowsOf(t, path("undated.csv")), post(`{"columns": ["class", "probability"], "edges": [
		{"payer": "c1", "payee": "c7", "amount": 12.5},
		{"payer": "c1", "payee": "c1", "amount": 99, "day": "2024-12-24"}]}`))
	end()
}
