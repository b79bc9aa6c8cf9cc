"""Answers each request with four segments, the second and the last of which arrive first: the others
follow one by one, as late as after losses. Takes the port, and the seconds that each is late."""

import socket
import struct
import sys
import threading
import time

PORT, LATE_S = int(sys.argv[1]), float(sys.argv[2])
SEGMENTS = [b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n", b"1234", b"5678", b"9012"]

# Socket options of linux/tcp.h that Python doesn't name: they return a connection's sequence
# numbers.
TCP_REPAIR, TCP_REPAIR_QUEUE, TCP_QUEUE_SEQ = 19, 20, 21
REPAIR_ON, REPAIR_OFF = 1, -1
RECEIVED, SENT = 1, 2
# Flags of a segment.
PUSH_AND_ACK = 0x18

raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP)


def sequence_numbers(connection):
    """Those of the next byte to send, and of the next one to receive."""

    def of(queue):
        connection.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR_QUEUE, queue)
        return connection.getsockopt(socket.IPPROTO_TCP, TCP_QUEUE_SEQ) % 2**32

    connection.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, REPAIR_ON)
    numbers = of(SENT), of(RECEIVED)
    connection.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, REPAIR_OFF)
    return numbers


def checksum(data):
    words = struct.unpack(f"!{(len(data) + 1) // 2}H", data + b"\0" * (len(data) % 2))
    total = sum(words)
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def send_segment(connection, sequence, acknowledged, data):
    """Sends a segment of a connection behind its kernel's back."""
    (source, source_port), (target, target_port) = connection.getsockname(), connection.getpeername()

    def header(check):
        ports = source_port, target_port
        return struct.pack(
            "!HHIIBBHHH", *ports, sequence, acknowledged, 5 << 4, PUSH_AND_ACK, 512, check, 0
        )

    addresses = socket.inet_aton(source) + socket.inet_aton(target)
    length = struct.pack("!BBH", 0, socket.IPPROTO_TCP, 20 + len(data))
    check = checksum(addresses + length + header(0) + data)
    raw.sendto(header(check) + data, (target, 0))


def serve(connection):
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while connection.recv(65_536):
        sent, received = sequence_numbers(connection)
        for number in 1, 3:
            before = sum(map(len, SEGMENTS[:number]))
            send_segment(connection, (sent + before) % 2**32, received, SEGMENTS[number])
        for late in SEGMENTS[:2], SEGMENTS[2:]:
            time.sleep(LATE_S)
            # The kernel sends the second of them once more, as a duplicate.
            for segment in late:
                connection.sendall(segment)


listener = socket.create_server(("127.0.0.1", PORT))
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
