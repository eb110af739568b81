import { atRate, MB, readers, whole } from "../support/paced_reader.ts";
import { withDaemon } from "../support/with_daemon.ts";

withDaemon.together("readers lose nothing, however slow their network is", {
  "1 MB/s": ({ daemon }) => atRate(daemon, 1),
  "5 MB/s": ({ daemon }) => atRate(daemon, 5),
  "two of different speed": async ({ daemon }): Promise<void> => {
    whole(await readers(daemon, { rate: 5 * MB }, { rate: 50 * MB }));
  },
});
