import Glibc
import MartletClient

/// Logs in by SCRAM-SHA-256; once more for each line of its input, behind which it publishes. Ends when the login holds
/// no longer, whatever the client does just then.
func authenticate(_ server: ServerAddress, _ user: String, _ password: String) async throws {
    var settings = settings(server, "twice")
    settings.login = .scram(user: user, password: password)
    let client = try Client(settings)
    try await client.connect()
    let watching = Task {
        for await state in client.states where !state.isOnline {
            say("state: \(state)")
            break
        }
        await client.disconnect()
        // What was published in that moment waits for a connection that does not come.
        exit(0)
    }
    say("online")
    do {
        while readLine() != nil {
            try await client.reauthenticate()
            let receipt = try await client.publish("again", to: "again", qos: .atLeastOnce)
            say("authenticated, published: \(receipt.reason)")
        }
    } catch {
        say("refused: \(error)")
    }
    await watching.value
}
