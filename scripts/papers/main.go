// Command papers has the two parts of `make papers` that are too slow, or not there, in Python. papers.py
// drives them:
//
//	go run ./scripts/papers graph FOLDER SHARE   writes a generated graph in OGB's layout (graph.go); the
//	                                             folder has the name of its shape
//	go run ./scripts/papers plan                 plans for workers that are described by counts (plan.go)
//
// The second reads a JSON list of cases from standard input and writes a list of answers.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
)

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "papers: %v\n", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("usage: papers graph FOLDER SHARE, or papers plan")

func run(arguments []string, in io.Reader, out io.Writer) error {
	switch {
	case len(arguments) == 3 && arguments[0] == "graph":
		share, err := strconv.ParseFloat(arguments[2], 64)
		if err != nil || !(share > 0 && share <= 1) {
			return fmt.Errorf("share %s: give a number above 0 and up to 1", arguments[2])
		}
		for _, s := range []shape{papers100M, igbMedium} {
			if s.name == filepath.Base(arguments[1]) {
				return s.generate(share).write(arguments[1])
			}
		}
		return fmt.Errorf("folder %s: give one that is called %s or %s, as its shape is", arguments[1],
			papers100M.name, igbMedium.name)
	case len(arguments) == 1 && arguments[0] == "plan":
		var cases []planned
		if err := json.NewDecoder(in).Decode(&cases); err != nil {
			return err
		}
		if err := planAll(context.Background(), cases); err != nil {
			return err
		}
		return json.NewEncoder(out).Encode(cases)
	}
	return errUsage
}
