internal import MartletClient

/// A client command from connecting to its exit code.
struct CommandRun: Sendable {
    let arguments: ClientArguments
    let ending: Ending
    let console: CommandConsole
    let screen: MirrorScreen?

    init(_ arguments: ClientArguments, _ ending: Ending, _ screen: MirrorScreen?) {
        (self.arguments, self.ending, self.screen) = (arguments, ending, screen)
        console = CommandConsole(arguments)
    }

    /// Returns the exit code.
    func run() async -> Int32 {
        let payload: [UInt8]?
        do throws(ArgumentError) {
            payload = try await messagePayload()
        } catch {
            console.complain(error.description)
            return ExitCode.failure
        }
        let client: Client
        do throws(ClientError) {
            client = try Client(try ClientSettings(arguments))
        } catch {
            return report(.failed(error))
        }
        if arguments.isForItsReader { console.watchReader(ending) }
        let work = Task { await connectAndWork(client, payload) }
        let reason = await ending.wait()
        // The screen shows no more when the command says why it ended.
        screen?.leave()
        let code = report(reason)
        if arguments.command == .sub, client.dropped.backlogFull > 0 {
            console.complain(
                "Warning: \(client.dropped.backlogFull) messages were dropped: they came faster than they were printed.")
        }
        console.debug("sending DISCONNECT")
        await client.disconnect(arguments.disconnectReason(reason), properties: arguments.properties.disconnect)
        withExtendedLifetime(work) {}
        if case .signal(let number) = reason, !endsWellOnSignal(number) { CommandProcess.die(of: number) }
        return code
    }

    private func connectAndWork(_ client: Client, _ payload: [UInt8]?) async {
        Task { await watch(client) }
        console.debug("sending CONNECT")
        do throws(ClientError) {
            try await client.connect()
        } catch {
            ending.end(.failed(error))
            return
        }
        if let seconds = arguments.timeoutSeconds {
            Task {
                try? await Task.sleep(for: .seconds(seconds))
                ending.end(.timeout)
            }
        }
        switch arguments.command {
        case .pub: await publish(client, payload)
        case .sub: await subscribe(client)
        case .request: await request(client, payload ?? [])
        case .respond: await respond(client, payload)
        case .mirror: await mirror(client)
        }
    }

    /// What is refused for good ends the command; the rest is told to those who debug.
    private func watch(_ client: Client) async {
        for await state in client.states {
            screen?.show(state)
            switch state {
            case .online: console.debug("received CONNACK (0)")
            case .refused(let error):
                ending.end(.failed(error))
                return
            case .waiting(let pause, let error):
                // It may come again and again, and the user can help it.
                if case .packetTooLarge = error {
                    console.complain("Error: \(error) (-D connect maximum-packet-size sets another)")
                }
                console.debug("lost its connection: \(error); again in \(Int64(pause / .milliseconds(1))) ms")
            case .connecting(let attempt): if attempt > 1 { console.debug("sending CONNECT") }
            case .offline, .ended: continue
            }
        }
    }

    /// Says what there is to say, and returns the exit code.
    private func report(_ reason: Ending.Reason) -> Int32 {
        switch reason {
        case .done: return ExitCode.success
        case .code(let code): return code
        // mosquitto_sub ends so, too.
        case .signal: return ExitCode.success
        case .timeout:
            console.complain("Timed out")
            return ExitCode.timeout
        case .failed(let error):
            let (words, code) = ExitCode.of(error, arguments.version)
            console.complain(words)
            return code
        case .complaint(let words, let code):
            console.complain(words)
            return code
        }
    }

    /// Whether a signal is the usual way to end the command.
    private func endsWellOnSignal(_ number: Int32) -> Bool {
        switch arguments.command {
        case .sub, .respond, .mirror: CommandProcess.polite.contains(number)
        case .pub, .request: false
        }
    }
}

extension CommandProcess {
    /// Somebody asks to end.
    static let polite = [endingSignals[0], endingSignals[1]]
}

extension ClientArguments {
    /// Whether the command does nothing but print: without a reader it need not go on.
    fileprivate var isForItsReader: Bool {
        switch command {
        case .sub: !filters.isEmpty && !exitsWhenSubscribed && !removesRetained
        case .mirror: true
        case .pub, .request, .respond: false
        }
    }

    /// mosquitto_sub lets the broker send the will of a client that is ended by a signal or its time, and so does this.
    fileprivate func disconnectReason(_ reason: Ending.Reason) -> ReasonCode {
        guard version == .v5, will != nil else { return .normalDisconnection }
        switch reason {
        case .signal, .timeout: return .disconnectWithWillMessage
        case .done, .code, .failed, .complaint: return .normalDisconnection
        }
    }
}
