import { simpleHookTests } from "./simple_hook.ts";

simpleHookTests("suspend");
