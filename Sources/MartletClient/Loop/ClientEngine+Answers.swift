internal import ClientCore
internal import EpollLoop
internal import MQTTCodec
internal import Synchronization

/// What the server answers to CONNECT, and why a connection ends.
extension ClientEngine {
    func connected(_ packet: ConnackPacket) {
        guard case .opening(let connection) = phase else { return }
        phase = .online(connection)
        let version = session.options.version
        if let refusal = finishExchange(packet) {
            session.disconnect(now: loop.now)
            return beginClosing(connection, next(after: refusal))
        }
        if let assigned = packet.properties.assignedClientIdentifier { session.options.clientIdentifier = assigned }
        connecting.succeeded(now: loop.now)
        let facts = ServerFacts(
            connectionNumber: connecting.successCount, address: connecting.server.description, version: version,
            isSessionPresent: packet.sessionPresent,
            clientIdentifier: session.options.clientIdentifier.description, properties: packet.properties, heldBy: heldBy)
        planFirstServerCheck()
        unmatched.begin(until: loop.now + settings.graceTime.milliseconds)
        let forgotten = subscriptions.connected(sessionPresent: packet.sessionPresent)
        if !packet.sessionPresent { for (_, pipe) in pipes.sorted(by: { $0.key < $1.key }) { pipe.sessionLost() } }
        unsubscribe(forgotten)
        sendSubscriptions()
        publishing.releaseOffline {
            publishNow($0)
        }
        // The rest of the packet takes less, unless it has properties.
        let packetBytes = Int(packet.properties.maximumPacketSize ?? .max) - 32
        unaskedByteCount.store(packet.properties.retainAvailable == false ? 0 : packetBytes, ordering: .relaxed)
        isOnline.store(true, ordering: .relaxed)
        state.set(.online(facts))
        completeStart(.success(()))
    }

    /// CONNACK with an error.
    func refused(_ packet: ConnackPacket) {
        guard case .opening(let connection) = phase else { return }
        let reason = packet.failureReason
        let error = ClientError(refused: reason, packet.properties)
        switch reason {
        case .useAnotherServer, .serverMoved:
            let isFollowed = connecting.follow(packet.properties.serverReference, isForGood: reason == .serverMoved, now: loop.now)
            beginClosing(connection, isFollowed ? .tryAtOnce : .tryAgain(error))
        case .badUserNameOrPassword, .notAuthorized:
            if case .provider = login, connecting.mayAskForFreshLogin() {
                beginClosing(connection, .tryAtOnce)
            } else {
                beginClosing(connection, next(after: error))
            }
        default: beginClosing(connection, next(after: error))
        }
        told(error)
    }

    /// Whether a refusal, by the server or by our own authenticator, is final: the settings say it.
    func next(after error: ClientError, wasConnected: Bool = false) -> AfterClosing {
        switch error {
        case .refused(let reason, let words, _):
            let isFinal = settings.reconnect.isFinal(ServerRefusal(reason, words, wasConnected: wasConnected))
            return isFinal ? .refuse(error) : .tryAgain(error)
        case .settings: return .refuse(error)
        default: return .tryAgain(error)
        }
    }

    /// DISCONNECT from the server.
    func disconnected(_ packet: DisconnectPacket) {
        guard case .online(let connection) = phase else { return }
        isOnline.store(false, ordering: .relaxed)
        let error = ClientError(refused: packet.reasonCode, packet.properties)
        endReauthentication(.failure(error))
        switch packet.reasonCode {
        // Our own CONNECT of an attempt that was given up, which the network has brought late.
        case .sessionTakenOver where connecting.takeAbandoned(now: loop.now): beginClosing(connection, .tryAgain(error))
        case .useAnotherServer, .serverMoved:
            let isFollowed = connecting.follow(
                packet.properties.serverReference, isForGood: packet.reasonCode == .serverMoved, now: loop.now)
            beginClosing(connection, isFollowed ? .tryAtOnce : .tryAgain(error))
        default: beginClosing(connection, next(after: error, wasConnected: true))
        }
        told(error)
    }

    /// The session gives the connection up.
    func failed(_ failure: ClientFailure) {
        let error: ClientError =
            switch failure {
            case .connectTimeout: connecting.unreachable("no answer within \(settings.connectTimeout)")
            case .requestTimeout:
                connecting.unreachable("it answers no SUBSCRIBE or UNSUBSCRIBE within \(settings.subscribeTimeout)")
            case .pingTimeout: connecting.unreachable("it does not answer any more")
            case .malformed(let error): connecting.unreachable("it sent what is no MQTT: \(error)")
            case .protocolError(.packetTooLarge):
                .packetTooLarge(server: "\(connecting.server)", maximum: session.options.maximumPacketSize ?? .max)
            case .protocolError(let reason): connecting.unreachable("it broke the protocol: \(reason)")
            }
        switch phase {
        case .opening(let connection), .online(let connection):
            isOnline.store(false, ordering: .relaxed)
            beginClosing(connection, .tryAgain(error))
        default: break
        }
    }
}

extension ClientEngine {
    /// Tells the interceptors what the server refuses, and logs out if one of them says so.
    func told(_ refusal: Refusal) {
        guard isIntercepted, settings.interceptors.didRefuse(refusal) == .logOut else { return }
        disconnect(.normalDisconnection, Properties(), nil)
    }

    /// As above, of a connection that is about to close for it.
    private func told(_ error: ClientError) {
        guard isIntercepted, case .refused(let reason, let words, let userProperties) = error else { return }
        let refusal = Refusal(.connection, reason, words, userProperties: userProperties)
        if settings.interceptors.didRefuse(refusal) == .logOut { afterClosing = .refuse(error) }
    }
}
