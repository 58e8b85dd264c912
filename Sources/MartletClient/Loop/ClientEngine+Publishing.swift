internal import ClientCore

/// Messages to the server.
extension ClientEngine {
    func publish(_ call: PublishCall) {
        if call.call.isOver { return }
        call.begin(now: loop.now)
        switch phase {
        case .ended: return complete(call, .failure(.ended))
        case .refused(let error): return complete(call, .failure(error))
        default: break
        }
        guard publishing.hasBlocked || !publishing.hasRoom(for: call, settings.queue) else { return publishNow(call) }
        switch settings.queue.whenFull {
        case .wait: publishing.block(call)
        case .refuse: complete(call, .failure(.queueFull))
        case .dropOldest:
            while !publishing.hasRoom(for: call, settings.queue), let oldest = publishing.popOldest() {
                guard session.withdraw(oldest) else { continue }
                publishing.remove(oldest)?.call.complete(.failure(.queueFull))
            }
            if publishing.hasRoom(for: call, settings.queue) { publishNow(call) } else { complete(call, .failure(.queueFull)) }
        }
    }

    /// Hands a message to the session.
    func publishNow(_ call: PublishCall) {
        let time = call.begin(now: loop.now)
        if call.expiresAt <= loop.now { return complete(call, .failure(.expired)) }
        do throws(RequestRefusal) {
            let ticket = try session.publish(call.publication, since: time, now: loop.now)
            guard call.publication.qos > .atMostOnce else { return complete(call, .success(PublishReceipt())) }
            publishing.add(call, ticket, tracksOrder: settings.queue.whenFull == .dropOldest)
        } catch {
            complete(call, .failure(ClientError(error)))
        }
    }

    func publishAtMostOnce(_ publication: Publication) {
        // What the server would not take, or a connection that has just gone: at most once.
        _ = try? session.publish(publication, now: loop.now)
    }

    func publishWhenRoom(_ call: PublishCall) {
        if call.call.isOver { return }
        call.begin(now: loop.now)
        switch phase {
        case .online:
            if session.outputByteCount < Limits.outputBytesMax { publishNow(call) } else { publishing.waitForRoom(call) }
        case .ended: complete(call, .failure(.ended))
        default:
            switch settings.offlineAtMostOnce {
            case .refuse: complete(call, .failure(.notConnected))
            case .drop: complete(call, .success(PublishReceipt()))
            case .queue: if !publishing.waitForConnection(call, settings.queue) { complete(call, .failure(.queueFull)) }
            }
        }
    }

    /// The task does not wait any longer: what was not sent is taken back.
    func withdraw(_ call: PublishCall) {
        guard let ticket = call.ticket else { return publishing.cancelled() }
        guard session.withdraw(ticket) else { return }
        _ = publishing.remove(ticket)
        releaseBlocked()
    }

    func published(_ ticket: PublishTicket, _ reason: ReasonCode, _ texts: AnswerTexts?) {
        if outboxPublished(ticket, reason, texts) { return }
        guard let call = publishing.remove(ticket) else { return }
        if reason.isError {
            complete(call, .failure(ClientError(refused: reason, texts)))
            told(Refusal(.publication(call.publication.topic), reason, texts))
        } else {
            complete(call, .success(PublishReceipt(reason: reason)))
        }
        if publishing.hasBlocked { releaseBlocked() }
    }

    /// A message of QoS 1 or 2 has waited too long.
    func expired(_ ticket: PublishTicket) {
        if outboxExpired(ticket) { return }
        guard let call = publishing.remove(ticket) else { return }
        complete(call, .failure(.expired))
        if publishing.hasBlocked { releaseBlocked() }
    }

    private func releaseBlocked() {
        while let call = publishing.popBlocked(settings.queue) { publishNow(call) }
    }

    private func complete(_ call: PublishCall, _ outcome: Result<PublishReceipt, ClientError>) { call.call.complete(outcome) }
}

extension ClientError {
    init(_ refusal: RequestRefusal) {
        switch refusal {
        case .notConnected: self = .notConnected
        case .tooManyWaiting, .noIdentifierLeft: self = .queueFull
        case .packetTooLarge: self = .refused(.packetTooLarge, "the server takes no packet as large")
        case .qosNotSupported: self = .refused(.qosNotSupported, "the server takes no message of that QoS")
        case .retainNotSupported: self = .refused(.retainNotSupported, "the server keeps no retained messages")
        case .notAllowed(let reason): self = .refused(reason, nil)
        }
    }
}
