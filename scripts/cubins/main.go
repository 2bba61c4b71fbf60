// Command cubins compiles the kernels for NVIDIA's cards by NVRTC, and fails where a function has a stack
// frame, spills registers, or takes more than 128 of them, or 64 if it interprets message functions. `cubins
// FOLDER` writes there what weft's packages carry.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"weft/device"
	_ "weft/kernel" // whose headers the kernels include
)

// Code for a card runs on later ones of the same major number.
var capabilities = []int{80, 90, 100, 120}

// Registers of a thread, and of one that interprets message functions.
const mostRegisters, mostInterpreting = 128, 64

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "cubins:", err)
		os.Exit(1)
	}
}

func run(folders []string) error {
	total := 0
	for _, capability := range capabilities {
		code, log, err := device.Compile(capability, "--ptxas-options=-v")
		if err != nil {
			return fmt.Errorf("%w\n%s", err, log)
		}
		functions, faults := report(log)
		fmt.Printf("sm_%d: %d functions, %d kB\n", capability, functions, len(code)/1000)
		for _, fault := range faults {
			fmt.Fprintf(os.Stderr, "cubins: sm_%d: %s\n", capability, fault)
		}
		total += len(faults)
		for _, folder := range folders {
			err := os.WriteFile(filepath.Join(folder, device.CubinName(capability)), code, 0o644)
			if err != nil {
				return err
			}
		}
	}
	if total > 0 {
		return fmt.Errorf("%d faults", total)
	}
	return nil
}

// What ptxas -v says of a function; NVRTC puts a colon or a dot in front.
var properties = regexp.MustCompile(`(?m)Function properties for (\S+)\n.*?(\d+) bytes stack frame, ` +
	`(\d+) bytes spill stores, (\d+) bytes spill loads\n(?:.*Used (\d+) registers)?`)

// report returns how many functions the log of ptxas is of, and a line for each thing that is wrong with
// one.
func report(log string) (functions int, faults []string) {
	for _, m := range properties.FindAllStringSubmatch(log, -1) {
		functions++
		registers := mostRegisters
		if strings.HasPrefix(m[1], "pointwise_") {
			registers = mostInterpreting
		}
		for i, most := range []int{0, 0, 0, registers} {
			what := [...]string{
				"bytes of stack frame", "bytes of spill stores", "bytes of spill loads", "registers",
			}[i]
			if n, err := strconv.Atoi("0" + m[2+i]); err != nil || n > most {
				faults = append(faults, fmt.Sprintf("%s: %d %s", m[1], n, what))
			}
		}
	}
	if functions == 0 {
		faults = []string{"no function in the report of ptxas"}
	}
	return functions, faults
}
