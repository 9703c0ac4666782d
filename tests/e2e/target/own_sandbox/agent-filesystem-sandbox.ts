// Its name says that this target restricts its agents itself.
export const HIDDEN: readonly string[] = ["db", "secrets"];
