import ArgumentParsing
import Persistence

/// How a command ends that cannot do its work on a store.
enum StoreFailure {
    /// What `body` gives, or exit code 1 behind the reason.
    static func told<Answer>(_ body: () throws(StoreError) -> Answer) throws -> Answer {
        do throws(StoreError) {
            return try body()
        } catch {
            throw end("\(error)")
        }
    }

    static func end(_ reason: String) -> ExitCode {
        Console.complain("Error: \(reason)")
        return ExitCode(1)
    }
}
