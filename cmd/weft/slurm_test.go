package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"weft/internal/assert"
	"weft/internal/require"
)

const requeueScript = "../../scripts/hosts/requeue.sbatch"

// The batch script ends with srun's status, and requeues the job if that is not 0 and a checkpoint was added.
func TestRequeueScript(t *testing.T) {
	for _, job := range []struct {
		name, srun string // what srun does, in the folder of checkpoints
		status     int
		requeued   bool
	}{
		{"finished", "touch epoch-000000020", 0, false},
		{"interrupted", "touch epoch-000000020; exit 130", 130, true},
		{"a rank was killed", "touch epoch-000000020; rm -r epoch-000000009; exit 137", 137, true},
		{"failed at the same epoch", "touch .epoch-000000010.tmp; exit 1", 1, false},
		{"refused", "exit 2", 2, false},
	} {
		t.Run(job.name, func(t *testing.T) {
			folder := t.TempDir()
			run := filepath.Join(folder, "a run")
			checkpoints := filepath.Join(run, "checkpoints")
			for _, epoch := range []string{"epoch-000000009", "epoch-000000010"} {
				require.NoError(t, os.MkdirAll(filepath.Join(checkpoints, epoch), 0o777))
			}
			for name, does := range map[string]string{
				"srun":     "echo \"$*\"\ncd '" + checkpoints + "' && " + job.srun,
				"scontrol": "echo \"$*\"",
			} {
				require.NoError(t,
					os.WriteFile(filepath.Join(folder, name), []byte("#!/bin/sh\n"+does+"\n"), 0o777))
			}
			cmd := exec.Command("sh", requeueScript, "a store", run, "--epochs", "20")
			cmd.Env = append(os.Environ(), "PATH="+folder+":"+os.Getenv("PATH"),
				"SLURM_NTASKS=4", "SLURM_JOB_ID=7")
			output, err := cmd.CombinedOutput()
			if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			want := "--mpi=pmix --kill-on-bad-exit=1 weft train a store --out " + run +
				" --resume auto --max-time 3h50m --parallel graph=4 --epochs 20\n"
			if job.requeued {
				want += "requeue 7\n"
			}
			assert.Equal(t, want, string(output), "status, said\n%s", output)
			assert.Equal(t, job.status, cmd.ProcessState.ExitCode(), "status, said\n%s", output)
		})
	}
}
