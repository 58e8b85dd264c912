import MartletClient

/// Logs in by SCRAM-SHA-256; once more for each line of its input, behind which it publishes.
func authenticate(_ server: ServerAddress, _ user: String, _ password: String) async throws {
    var settings = settings(server, "twice")
    settings.login = .scram(user: user, password: password)
    let client = try Client(settings)
    do {
        try await client.connect()
        say("online")
        while readLine() != nil {
            try await client.reauthenticate()
            let receipt = try await client.publish("again", to: "again", qos: .atLeastOnce)
            say("authenticated, published: \(receipt.reason)")
        }
    } catch {
        say("refused: \(error)")
        for await state in client.states where !state.isOnline {
            say("state: \(state)")
            break
        }
    }
    await client.disconnect()
}
