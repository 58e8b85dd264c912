extension Double {
    /// With at most three digits behind the point, and none that is a zero at the end: `5`, `0.25`.
    var shortText: String {
        var text = decimalText(digits: 3)
        while text.hasSuffix("0") { text.removeLast() }
        if text.hasSuffix(".") { text.removeLast() }
        return text
    }

    /// With that many digits behind the point, rounded; at most 9.
    func decimalText(digits: Int) -> String {
        let scale = (0..<digits).reduce(1.0) { power, _ in power * 10 }
        let scaled = (magnitude * scale).rounded()
        guard scaled < 1e18 else { return "\(self)" }
        let whole = UInt64(scaled)
        let sign = self < 0 && whole > 0 ? "-" : ""
        let unit = UInt64(scale)
        guard digits > 0 else { return sign + String(whole) }
        let fraction = String(whole % unit)
        return sign + String(whole / unit) + "." + String(repeating: "0", count: digits - fraction.count) + fraction
    }
}

extension Int {
    /// With a comma between thousands.
    var groupedText: String {
        let digits = Array(String(magnitude))
        var text = self < 0 ? "-" : ""
        for (index, digit) in digits.enumerated() {
            if index > 0, (digits.count - index) % 3 == 0 { text += "," }
            text.append(digit)
        }
        return text
    }
}
